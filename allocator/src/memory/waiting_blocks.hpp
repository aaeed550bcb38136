#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/block.hpp"

namespace millrace {

/**
 * @brief Small freed blocks of one stream that one other stream used as well, in the order of their
 *        frees.
 *
 * Each waits for one point of the other stream. They become ready in about this order, so only the
 * first one is checked.
 */
class WaitingBlocks {
 public:
  static constexpr std::size_t kMostBlocks = 320, kMostBytes = std::size_t{4} << 20;

  /** @brief Returns the block's only point of a stream other than its lane's; an invalid point if
   * there is none, or more than one. */
  [[nodiscard]] static Point foreign_point(const Block& block) noexcept {
    Point foreign;
    for (const Point point : block.points) {
      if (point.stream == block.lane) continue;
      if (foreign.stream.valid()) return {};
      foreign = point;
    }
    return foreign;
  }

  [[nodiscard]] bool has_room(std::size_t bytes) const noexcept {
    return blocks_ < kMostBlocks && bytes_ + bytes <= kMostBytes;
  }
  /** @brief Adds a block that has a foreign point. */
  void push(Block* block) noexcept {
    block->next_quick = nullptr;
    if (first_ == nullptr) {
      first_ = block;
      publish();
    } else {
      last_->next_quick = block;
    }
    last_ = block;
    bytes_ += block->bytes;
    blocks_ = blocks_ + 1;
  }

  /** @brief Returns whether there are no blocks. It may be called without the lock. */
  [[nodiscard]] bool empty() const noexcept { return blocks_ == 0; }
  /**
   * @brief Returns the point that the first block waits for. It may be called without the lock: if
   *        another thread changes the list, the marker may be that of another block.
   */
  [[nodiscard]] Point next_point() const noexcept {
    const std::uint64_t stream = stream_;
    return {{static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
            marker_};
  }
  /** @brief Returns whether `passed` covers the point of the first block. */
  [[nodiscard]] bool first_is_ready(Point passed) const noexcept {
    const Point point = next_point();
    return first_ != nullptr && point.stream == passed.stream && point.marker <= passed.marker;
  }
  [[nodiscard]] Block* first() const noexcept { return first_; }
  void pop() noexcept {
    bytes_ -= first_->bytes;
    blocks_ = blocks_ - 1;
    first_ = first_->next_quick;
    publish();
  }
  /** @brief Takes out all blocks. @return the blocks followed by `all`, linked by `next_quick` */
  [[nodiscard]] Block* take_all(Block* all) noexcept {
    if (first_ == nullptr) return all;
    last_->next_quick = all;
    all = first_;
    first_ = last_ = nullptr;
    bytes_ = 0;
    blocks_ = 0;
    return all;
  }

 private:
  void publish() noexcept {
    if (first_ == nullptr) return;
    const Point point = foreign_point(*first_);
    stream_ = std::uint64_t{point.stream.generation} << 32 | point.stream.slot;
    marker_ = point.marker;
  }

  Block* first_ = nullptr;
  Block* last_ = nullptr;  // end of the list that `next_quick` links
  std::size_t bytes_ = 0;
  Relaxed<std::size_t> blocks_ = 0;
  Relaxed<std::uint64_t> stream_ = 0;  // of the first block's foreign point
  Relaxed<Marker> marker_ = 0;
};

}  // namespace millrace
