#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/explain/block_times.hpp"
#include "observe/explain/memory_map.hpp"

namespace millrace {

/** @brief A stretch of a segment, all of one kind. */
struct Stretch {
  static constexpr std::uint32_t kNoBlock = UINT32_MAX;

  std::uint64_t begin = 0, end = 0;
  const MemoryMap::Segment* segment = nullptr;
  bool is_free = false;
  bool waits = false;              ///< a block that is freed but not complete
  bool whole = false;              ///< free, and nothing is in use in its segment or page
  std::uint32_t block = kNoBlock;  ///< the block; if free and not `whole`, the one that ends last

  [[nodiscard]] std::uint64_t bytes() const noexcept { return end - begin; }
};

/**
 * @brief All segments of a map, cut into stretches, in order of address. They fill each segment
 *        from end to end.
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
 * @brief Who used each byte of the free stretches last, before a moment.
 * @param until  number of the moment's last event among the device's, plus 1
 * @param ends   by block: where it ends in its segment
 */
[[nodiscard]] std::vector<FreePiece> last_users(const trace::AllocationLog& log,
                                                const DeviceLog& device, const BlockTimes& times,
                                                std::size_t until,
                                                const std::vector<Stretch>& stretches,
                                                const std::vector<std::uint64_t>& ends);

}  // namespace millrace
