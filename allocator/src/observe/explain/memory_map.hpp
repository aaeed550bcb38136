#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "observe/explain/block_times.hpp"
#include "observe/explain/device_log.hpp"
#include "observe/explain/explained_streams.hpp"

namespace millrace {

/**
 * @brief The segments of a device and the blocks in use in them, at a moment that moves forward.
 *
 * Free blocks are not stored: they are the gaps between blocks in use. Every address is in at most
 * one segment, and blocks in use do not overlap, even if the log contradicts itself. Memory is
 * `unplaced`, in no segment, if the log does not have its addresses.
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
   * @brief Starts with the state before the first event.
   * @param ends  by block of the log: the end of the block in its segment; filled for every block
   *              that was ever in use
   */
  MemoryMap(const trace::AllocationLog& log, const DeviceLog& device, const BlockTimes& times,
            ExplainedStreams& streams, std::vector<std::uint64_t>& ends);

  void apply(const trace::LogEvent& event);

  [[nodiscard]] const Segments& segments() const noexcept { return segments_; }
  [[nodiscard]] const Blocks& blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }
  /** @brief The part of `reserved` whose addresses the log does not have, in bytes. */
  [[nodiscard]] std::uint64_t unplaced() const noexcept { return unplaced_; }
  [[nodiscard]] std::uint64_t live() const noexcept { return live_; }  ///< requested bytes
  /** @brief Returns whether a block can be in the `unplaced` memory: it is in no segment and has no
   *         memory of its own. */
  [[nodiscard]] bool may_be_unplaced(std::uint64_t address, const Held& held) const;
  /** @brief Returns whether streams have used memory of other streams' segments so far. */
  [[nodiscard]] bool shares_streams() const noexcept {
    constexpr std::uint64_t kRare = 100;  // in a log that contradicts itself
    return shared_ * kRare > placed_;
  }

  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t block) const {
    return log_.blocks[block].bytes;
  }

  /** @brief Returns the page size of an expandable segment, which releases whole pages. */
  [[nodiscard]] std::uint64_t page_bytes(const Segment& segment) const;

 private:
  void add_segment(std::uint64_t address, const Segment& segment);
  void remove_segments(std::uint64_t from, std::uint64_t to);
  void remove_unplaced(std::uint64_t bytes);
  void split_segment(std::uint64_t at);
  [[nodiscard]] Segment* segment_of(std::uint64_t address);
  void hold(std::uint32_t block, bool waits);
  Blocks::iterator drop(Blocks::iterator held);
  void drop_within(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] Blocks::iterator find(std::uint32_t block);
  /** The address of a block; in a log without addresses, its index. */
  [[nodiscard]] std::uint64_t place_of(std::uint32_t block) const {
    return log_.has_addresses() ? log_.blocks[block].address : block;
  }
  [[nodiscard]] std::uint64_t end_of(const trace::LoggedBlock& block, const Segment* segment) const;

  const trace::AllocationLog& log_;
  const BlockTimes& times_;
  ExplainedStreams& streams_;
  std::vector<std::uint64_t>& ends_;
  Segments segments_;
  Blocks blocks_;
  std::uint64_t reserved_ = 0;
  std::uint64_t unplaced_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t placed_ = 0;  // allocated blocks in segments
  std::uint64_t shared_ = 0;  // those of them in another stream's segment
};

}  // namespace millrace
