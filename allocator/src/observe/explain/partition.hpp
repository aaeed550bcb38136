#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/explain/block_times.hpp"
#include "observe/explain/memory_map.hpp"

namespace millrace {

/** @brief Adjacent addresses of a segment that have the same use. */
struct Stretch {
  static constexpr std::uint32_t kNoBlock = UINT32_MAX;

  std::uint64_t begin = 0, end = 0;
  const MemoryMap::Segment* segment = nullptr;
  bool is_free = false;
  bool waits = false;              ///< a block that is freed but not complete
  bool whole = false;              ///< free, and its segment or page has no block in use
  std::uint32_t block = kNoBlock;  ///< the block; if free and not `whole`, the one freed last

  [[nodiscard]] std::uint64_t bytes() const noexcept { return end - begin; }
};

/**
 * @brief Returns all segments of a map, divided into stretches, in address order. The stretches
 * fill each segment.
 */
[[nodiscard]] std::vector<Stretch> stretches_of(const MemoryMap& map, const BlockTimes& times);

/** @brief A part of a free stretch with one last user. */
struct FreePiece {
  std::uint32_t stretch = 0;  ///< index into the stretches
  std::uint64_t begin = 0, end = 0;
  std::uint32_t user = Stretch::kNoBlock;  ///< block; none: not used since `freed`
  std::optional<std::uint32_t> freed;      ///< event of its free, or of its segment's acquisition
};

/**
 * @brief Finds the block that used each byte of the free stretches last before a moment.
 * @param until  number of the moment's last event among the device's, plus 1
 * @param ends   by block: its end in its segment
 */
[[nodiscard]] std::vector<FreePiece> last_users(const trace::AllocationLog& log,
                                                const DeviceLog& device, const BlockTimes& times,
                                                std::size_t until,
                                                const std::vector<Stretch>& stretches,
                                                const std::vector<std::uint64_t>& ends);

}  // namespace millrace
