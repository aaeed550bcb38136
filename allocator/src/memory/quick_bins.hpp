#pragma once

#include <algorithm>

#include "memory/class_bins.hpp"
#include "memory/exact_bins.hpp"
#include "memory/waiting_blocks.hpp"

namespace millrace {

/**
 * @brief Blocks of one stream that came back as they were given out, and serve its next requests:
 *        not merged with their neighbors, and not seen by other streams.
 *
 * Small blocks are in bins by size class, so that requests of drawn sizes find them. Large blocks
 * are in bins by exact size, since a merged block may fit better. Small blocks that another stream
 * used as well wait until this stream comes after that use.
 */
class QuickBins {
 public:
  /** @brief Bytes of a request (rounded), and where their bin is. */
  struct Size : BinSize {
    [[gnu::always_inline]] Size(std::size_t bytes) noexcept  // NOLINT: in place of bytes
        : BinSize(is_small(bytes) ? ClassBins::size_of(bytes) : ExactBins::size_of(bytes)) {}
    [[nodiscard]] bool small() const noexcept { return is_small(bytes); }
  };

  /**
   * @brief A block for a request of this size, taken out; nullptr if none fits.
   * @param highest_live  the stream's highest live bytes so far: beside little, nothing is wasted
   */
  [[nodiscard, gnu::always_inline]] Block* pop(Size size, std::size_t highest_live) noexcept {
    constexpr std::size_t kWaste = 8;  // an eighth of the request
    if (!size.small()) return large_.pop(size);
    return small_.pop(size, highest_live < kRoomy ? 0 : size.bytes / kWaste);
  }
  /** @brief Whether `pop` may find a block. May be asked without the lock, as `accepts`. */
  [[nodiscard]] bool may_have(Size size) const noexcept {
    return size.small() ? small_.may_have(size) : large_.may_have(size);
  }
  /** @brief Whether there is a block of the small size's own class. */
  [[nodiscard]] bool has_class(Size size) const noexcept { return small_.has_class(size); }
  /** @brief Blocks of this size are asked for. */
  void expect(Size size) noexcept {
    if (!size.small()) large_.expect(size);
  }
  /** @brief Whether a block whose request had this size is kept now. */
  [[nodiscard, gnu::always_inline]] bool accepts(Size size) const noexcept {
    return size.small() ? small_.has_room(size) : large_.expects(size);
  }
  /**
   * @brief Whether a block that is accepted may be kept: small blocks are few beside the stream's
   *        highest live bytes, so that what does not merge is little. Beside little live memory
   *        each miss empties the bins (`take_hindering`).
   */
  [[nodiscard]] bool affords(std::size_t bytes, std::size_t highest_live) const noexcept {
    constexpr std::size_t kShare = 16;
    if (!is_small(bytes) || highest_live < kRoomy) return true;
    return small_.bytes() + bytes <= highest_live / kShare;
  }
  /**
   * @brief Takes out the small blocks that are in the way of a small request, which the bins did
   *        not serve: its block would find no room when it comes back.
   * @return one of them, linked to the others by `next_quick`
   */
  [[nodiscard]] Block* take_hindering(Size size, std::size_t highest_live) noexcept {
    const bool are_scarce = highest_live < kRoomy || !affords(size.bytes, highest_live);
    if (are_scarce) return small_.take_from(ClassBins::kGranule, nullptr);
    return small_.has_room(size) ? nullptr : small_.take_class(size);
  }
  /** @brief Keeps a block that is accepted. */
  [[gnu::always_inline]] void push(Block* block, Size size) noexcept {
    size.small() ? small_.push(block, size) : large_.push(block, size);
  }

  /** @brief Takes all out. @return one of them, linked to the others by `next_quick` */
  [[nodiscard]] Block* take_all() noexcept {
    return waiting_.take_all(small_.take_from(ClassBins::kGranule, large_.take_all()));
  }
  /** @brief The same for small blocks that wait, or that have at least about `least` bytes. */
  [[nodiscard]] Block* take_small(std::size_t least = ClassBins::kGranule) noexcept {
    return waiting_.take_all(small_.take_from(least, nullptr));
  }
  /** @brief Whether `take_small` may find some. */
  [[nodiscard]] bool has_small() const noexcept { return small_.bytes() != 0; }
  /** @brief The same for small blocks in bins, of at least about `bytes`. */
  [[nodiscard]] Block* take_small_from(std::size_t bytes) noexcept {
    return small_.take_from(bytes, nullptr);
  }
  /** @brief The same for large blocks. */
  [[nodiscard]] Block* take_large() noexcept { return large_.take_all(); }
  /** @brief Whether `take_large` may find some. */
  [[nodiscard]] bool has_large() const noexcept { return large_.blocks() != 0; }

  /** @brief Blocks that wait. Empty, and what the first waits for, may be asked without the lock.
   */
  [[nodiscard]] const WaitingBlocks& waiting() const noexcept { return waiting_; }
  /** @brief Keeps a small block that waits for a foreign point. False: there is no room. */
  [[nodiscard]] bool wait(Block* block) noexcept {
    if (!waiting_.has_room(block->bytes)) return false;
    waiting_.push(block);
    return true;
  }
  /** @brief The stream is ordered after `passed`: the first blocks that waited for it go to bins.
   */
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

  /** @brief Live bytes of a stream beside which what the bins keep and waste is little. */
  static constexpr std::size_t kRoomy = std::size_t{16} << 20;

 private:
  ClassBins small_;
  WaitingBlocks waiting_;
  ExactBins large_;
};

}  // namespace millrace
