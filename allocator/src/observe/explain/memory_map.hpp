#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "observe/explain/device_log.hpp"
#include "observe/explain/explained_streams.hpp"

namespace millrace {

/**
 * @brief The segments of a device and the blocks in use in them, at a moment that moves forward.
 *
 * Free blocks are not kept: they are what lies between blocks in use. Every address is in at most
 * one segment, whatever the log says.
 */
class MemoryMap {
 public:
  struct Segment {
    std::uint64_t end = 0;
    std::uint32_t stream = 0;
    trace::TorchPool pool{0, 0};
    bool pool_known = false;
    bool large = false;
    bool expandable = false;
  };
  struct Held {
    std::uint64_t end = 0;
    std::uint32_t block = 0;  ///< index into the log's blocks
    bool waits = false;       ///< freed, but its uses are not complete
  };
  using Segments = std::map<std::uint64_t, Segment>;  ///< by address
  using Blocks = std::map<std::uint64_t, Held>;

  /**
   * @brief Begins with the state before the first event.
   * @param ends  by block of the log: where each block ends in its segment; filled for every block
   *              that was ever in use
   */
  MemoryMap(const trace::AllocationLog& log, const DeviceLog& device, ExplainedStreams& streams,
            std::vector<std::uint64_t>& ends);

  void apply(const trace::LogEvent& event);

  [[nodiscard]] const Segments& segments() const noexcept { return segments_; }
  [[nodiscard]] const Blocks& blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }
  [[nodiscard]] std::uint64_t live() const noexcept { return live_; }  ///< requested bytes

  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t block) const {
    return log_.blocks[block].bytes;
  }

  /** @brief Size of the pages of an expandable segment, of which whole ones can be given back. */
  [[nodiscard]] std::uint64_t page_bytes(const Segment& segment) const;

 private:
  void add_segment(std::uint64_t address, const Segment& segment);
  void remove_segments(std::uint64_t from, std::uint64_t to);
  void split_segment(std::uint64_t at);
  [[nodiscard]] Segment* segment_of(std::uint64_t address);
  void hold(std::uint32_t block, bool waits);
  void drop(Blocks::iterator held);
  [[nodiscard]] Blocks::iterator find(std::uint32_t block);
  /** The address of a block; without addresses, a number of its own. */
  [[nodiscard]] std::uint64_t place_of(std::uint32_t block) const {
    return log_.has_addresses() ? log_.blocks[block].address : block;
  }
  [[nodiscard]] std::uint64_t end_of(const trace::LoggedBlock& block, const Segment* segment) const;

  const trace::AllocationLog& log_;
  const bool completes_;
  ExplainedStreams& streams_;
  std::vector<std::uint64_t>& ends_;
  Segments segments_;
  Blocks blocks_;
  std::uint64_t reserved_ = 0;
  std::uint64_t live_ = 0;
};

}  // namespace millrace
