#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/block.hpp"

namespace millrace {

/**
 * @brief Small blocks of one stream that one other stream used as well, in the order of their
 * frees.
 *
 * Each waits for one point of the other stream. Blocks are ready about in this order, so only the
 * first is looked at.
 */
class WaitingBlocks {
 public:
  static constexpr std::size_t kMostBlocks = 320, kMostBytes = std::size_t{4} << 20;

  /** @brief The point of another stream than its lane's that the block waits for, if it is one. */
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
  /** @brief A block with a foreign point. */
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

  /** @brief May be asked without the lock. */
  [[nodiscard]] bool empty() const noexcept { return blocks_ == 0; }
  /**
   * @brief What the first block waits for. May be asked without the lock: while another thread
   *        changes the list, the marker may be of another block than the stream.
   */
  [[nodiscard]] Point next_point() const noexcept {
    const std::uint64_t stream = stream_;
    return {{static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
            marker_};
  }
  /** @brief Whether the first block waits for nothing after `passed`. */
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
  /** @brief Takes all out. @return `all` and they, linked by `next_quick` */
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
  Block* last_ = nullptr;  // linked by `next_quick`
  std::size_t bytes_ = 0;
  Relaxed<std::size_t> blocks_ = 0;
  Relaxed<std::uint64_t> stream_ = 0;  // of the first one's foreign point
  Relaxed<Marker> marker_ = 0;
};

}  // namespace millrace
