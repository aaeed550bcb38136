#pragma once

#include <algorithm>

#include "memory/class_bins.hpp"
#include "memory/exact_bins.hpp"
#include "memory/waiting_blocks.hpp"

namespace millrace {

/**
 * @brief Freed blocks of one stream that serve its next requests as they are. They are not merged
 *        with their neighbors, and other streams do not find them.
 *
 * Small blocks are in bins by size class, so that requests of varying sizes find them. Large blocks
 * are in bins by exact size, since a merged block may fit better. A small block that another stream
 * used as well waits until this stream is ordered after that use.
 */
class QuickBins {
 public:
  /** @brief The rounded size of a request, and the index of its bin. */
  struct Size : BinSize {
    [[gnu::always_inline]] Size(std::size_t bytes) noexcept  // NOLINT: in place of bytes
        : BinSize(is_small(bytes) ? ClassBins::size_of(bytes) : ExactBins::size_of(bytes)) {}
    [[nodiscard]] bool small() const noexcept { return is_small(bytes); }
  };

  /**
   * @brief Takes out a block for a request of this size; nullptr if none fits.
   * @param highest_live  the stream's highest live bytes so far; below `kRoomy`, a small block must
   *                      have exactly the size of the request
   */
  [[nodiscard, gnu::always_inline]] Block* pop(Size size, std::size_t highest_live) noexcept {
    constexpr std::size_t kWaste = 8;  // an eighth of the request
    if (!size.small()) return large_.pop(size);
    return small_.pop(size, highest_live < kRoomy ? 0 : size.bytes / kWaste);
  }
  /** @brief Returns whether `pop` may find a block. It may be called without the lock. */
  [[nodiscard]] bool may_have(Size size) const noexcept {
    return size.small() ? small_.may_have(size) : large_.may_have(size);
  }
  /** @brief Returns whether a bin has a block of the class of this small size. It may be called
   * without the lock. */
  [[nodiscard]] bool has_class(Size size) const noexcept { return small_.has_class(size); }
  /** @brief Notes a request of this size: large blocks of the size are accepted from now on. */
  void expect(Size size) noexcept {
    if (!size.small()) large_.expect(size);
  }
  /** @brief Returns whether the bins take a block whose request had this size. */
  [[nodiscard, gnu::always_inline]] bool accepts(Size size) const noexcept {
    return size.small() ? small_.has_room(size) : large_.expects(size);
  }
  /**
   * @brief Returns whether an accepted block may be kept: all small blocks together take at most
   *        1/16 of the stream's highest live bytes, because they cannot merge. Below `kRoomy` the
   *        limit does not apply, since each miss empties the bins (`take_hindering`).
   */
  [[nodiscard]] bool affords(std::size_t bytes, std::size_t highest_live) const noexcept {
    constexpr std::size_t kShare = 16;
    if (!is_small(bytes) || highest_live < kRoomy) return true;
    return small_.bytes() + bytes <= highest_live / kShare;
  }
  /**
   * @brief Takes out small blocks after the bins did not serve a small request, if the bins would
   *        have no room for its block when that is freed.
   * @return the blocks, linked by `next_quick`
   */
  [[nodiscard]] Block* take_hindering(Size size, std::size_t highest_live) noexcept {
    const bool are_scarce = highest_live < kRoomy || !affords(size.bytes, highest_live);
    if (are_scarce) return small_.take_from(ClassBins::kGranule, nullptr);
    return small_.has_room(size) ? nullptr : small_.take_class(size);
  }
  /** @brief Adds an accepted block. */
  [[gnu::always_inline]] void push(Block* block, Size size) noexcept {
    size.small() ? small_.push(block, size) : large_.push(block, size);
  }

  /** @brief Takes out all blocks. @return the blocks, linked by `next_quick` */
  [[nodiscard]] Block* take_all() noexcept {
    return waiting_.take_all(small_.take_from(ClassBins::kGranule, large_.take_all()));
  }
  /** @brief Takes out all waiting blocks, and the small blocks in the class of `least` bytes and in
   * larger ones. @return the blocks, linked by `next_quick` */
  [[nodiscard]] Block* take_small(std::size_t least = ClassBins::kGranule) noexcept {
    return waiting_.take_all(small_.take_from(least, nullptr));
  }
  /** @brief Returns whether the bins have small blocks. */
  [[nodiscard]] bool has_small() const noexcept { return small_.bytes() != 0; }
  /** @brief Like `take_small`, without the waiting blocks. */
  [[nodiscard]] Block* take_small_from(std::size_t bytes) noexcept {
    return small_.take_from(bytes, nullptr);
  }
  /** @brief Takes out all large blocks. @return the blocks, linked by `next_quick` */
  [[nodiscard]] Block* take_large() noexcept { return large_.take_all(); }
  /** @brief Returns whether the bins have large blocks. It may be called without the lock. */
  [[nodiscard]] bool has_large() const noexcept { return large_.blocks() != 0; }

  /** @brief The waiting blocks. `empty` and `next_point` may be called without the lock. */
  [[nodiscard]] const WaitingBlocks& waiting() const noexcept { return waiting_; }
  /** @brief Adds a small block that waits for a foreign point. Returns false if there is no room.
   */
  [[nodiscard]] bool wait(Block* block) noexcept {
    if (!waiting_.has_room(block->bytes)) return false;
    waiting_.push(block);
    return true;
  }
  /** @brief Moves the first blocks that waited for `passed` into the bins, at most 4. The stream is
   * ordered after `passed`. */
  void settle(Point passed, std::size_t highest_live) noexcept {
    constexpr int kMost = 4;
    for (int moved = 0; moved < kMost && waiting_.first_is_ready(passed); ++moved) {
      Block* const ready = waiting_.first();
      const Size size = ready->rounded();
      if (!accepts(size) || !affords(size.bytes, highest_live)) return;
      waiting_.pop();
      push(ready, size);
    }
  }

  static constexpr bool is_small(std::size_t bytes) noexcept {
    return bytes <= ClassBins::kLargest;
  }

  /** @brief From these highest live bytes on, requests may waste bytes, and misses do not empty the
   * bins. */
  static constexpr std::size_t kRoomy = std::size_t{16} << 20;

 private:
  ClassBins small_;
  WaitingBlocks waiting_;
  ExactBins large_;
};

}  // namespace millrace
