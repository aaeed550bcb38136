#pragma once

#include <cstdint>
#include <map>

#include "millrace/observe/trace/torch_layout.hpp"
#include "observe/trace/torch/rest.hpp"

namespace millrace::trace {

/**
 * @brief What PyTorch makes of a free block of `room` bytes in an ordinary segment for large
 *        requests, when it is asked for `rounded` of them: a rest that is too small stays with the
 *        block.
 */
[[nodiscard]] std::uint64_t torch_large_block(const TorchSettings& settings, std::uint64_t rounded,
                                              std::uint64_t room);

/**
 * @brief The segments of a device and the blocks in use in them, at a moment that moves backwards.
 * Free blocks are not kept: PyTorch merges free neighbors, so they are what lies between blocks in
 * use.
 */
class TorchHeap {
 public:
  struct Held {
    std::uint64_t requested = 0;
    BlockState state = BlockState::allocated;
    std::uint64_t bytes = 0;     ///< as the snapshot says; 0 if it does not
    std::uint64_t room_end = 0;  ///< lowest address of anything after it so far
    RestClues clues = {};
    StackTable::Id stack = StackTable::kNone;  ///< as the snapshot says
    LabelTable::Id label = LabelTable::kNone;
  };
  using Blocks = std::map<std::uint64_t, Held>;
  using Segments = std::map<std::uint64_t, TorchSegment>;

  explicit TorchHeap(const TorchSettings& settings) : settings_{settings} {}

  [[nodiscard]] Blocks& blocks() noexcept { return blocks_; }
  [[nodiscard]] Segments& segments() noexcept { return segments_; }

  /** @brief The segment that holds an address, or the end. */
  [[nodiscard]] Segments::iterator segment_of(std::uint64_t address);
  [[nodiscard]] bool overlaps_segment(std::uint64_t address, std::uint64_t bytes);

  /** @brief The first block in use that a range touches, as far as sizes are known; or the end. */
  [[nodiscard]] Blocks::iterator first_touching(std::uint64_t address);
  /** @brief Where a block ends if it has no unsplit rest. */
  [[nodiscard]] std::uint64_t least_end(const Blocks::value_type& block) const;
  /** @brief The end of the free space that a block before `next` could have been cut from. */
  [[nodiscard]] std::uint64_t room_end(const TorchSegment& segment, Blocks::iterator next) const;

  /** @brief Whether PyTorch leaves a rest that is too small to split off with its block. */
  [[nodiscard]] bool may_keep_rest(const TorchSegment& segment) const;
  /** @brief What PyTorch makes of a free block of `room` bytes, asked for `rounded` of them. */
  [[nodiscard]] std::uint64_t block_bytes(const TorchSegment& segment, std::uint64_t rounded,
                                          std::uint64_t room) const;

  /** @brief Adds a block in free space of a segment. */
  void insert(Segments::iterator segment, std::uint64_t address, Held held);
  /** @brief Adds a stretch; what it continues and what continues it become one with it, if
   * expandable. */
  void add_segment(TorchSegment segment);
  /** @brief Takes a stretch out of an expandable segment that holds it. */
  void cut(Segments::iterator segment, std::uint64_t address, std::uint64_t bytes);

  /** @brief A segment with its blocks, free ones too. */
  [[nodiscard]] TorchSegment filled(const TorchSegment& segment);

 private:
  const TorchSettings& settings_;
  Blocks blocks_;
  Segments segments_;
};

[[nodiscard]] inline std::uint64_t end_of(const TorchSegment& segment) {
  return segment.address + segment.bytes;
}

}  // namespace millrace::trace
