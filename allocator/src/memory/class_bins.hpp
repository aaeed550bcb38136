#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/block.hpp"

namespace millrace {

/** @brief Size classes up to 1 MiB, four for each power of two. */
struct SizeClasses {
  static constexpr std::size_t kGranule = 512, kLargest = std::size_t{1} << 20;
  static constexpr std::size_t kCount = 41;

  // Returns the class of a size: the highest bit of the size in granules, and the two bits below.
  static constexpr std::size_t of(std::size_t bytes) noexcept {
    const std::size_t units = (bytes + kGranule - 1) / kGranule;
    const auto shift = static_cast<std::size_t>(std::bit_width(units | 4)) - 3;
    return 4 * shift + (units >> shift);
  }
};

/** @brief Bytes of a request, and the index of its bin, which several calls need. */
struct BinSize {
  std::size_t bytes, place;
};

/** @brief Maximum bytes in one bin. */
inline constexpr std::size_t kMostBytesInBin = std::size_t{4} << 20;

/** @brief Maximum number of blocks in each bin, from `kMostBytesInBin`, but at most 256. */
inline constexpr auto kMostInBin = [] {
  constexpr std::size_t kMostBlocks = 256;
  std::array<std::uint16_t, SizeClasses::kCount> most{};
  for (std::size_t bytes = SizeClasses::kGranule; bytes <= SizeClasses::kLargest;
       bytes += SizeClasses::kGranule) {  // the largest size of a class is written last
    most[SizeClasses::of(bytes)] =
        static_cast<std::uint16_t>(std::min(kMostBytesInBin / bytes, kMostBlocks));
  }
  return most;
}();

/**
 * @brief Small blocks in bins by size class.
 *
 * A request takes the best fit of the newest few blocks of its class, otherwise of the next class.
 * The caller limits the waste. Blocks in bins cannot merge with neighbors, so each bin is limited
 * in blocks and bytes.
 */
class ClassBins {
 public:
  static constexpr std::size_t kLargest = SizeClasses::kLargest;  ///< largest request, in bytes

  /**
   * @brief Takes out a block for a request of this size; nullptr if none fits.
   * @param most_waste  maximum bytes of the block beyond the request
   */
  [[nodiscard, gnu::always_inline]] Block* pop(BinSize size, std::size_t most_waste) noexcept {
    const std::size_t place = size.place;
    Block* const newest = first_[place];
    if (newest == nullptr || newest->bytes != size.bytes) return pop_near(size, most_waste);
    first_[place] = newest->next_quick;
    count_[place] = count_[place] - 1;
    bytes_ -= newest->bytes;
    return newest;
  }

  static constexpr BinSize size_of(std::size_t bytes) noexcept {
    return {bytes, SizeClasses::of(bytes)};
  }

  // These three may be called without the lock. Another thread may change the answer at any time.
  /** @brief Returns whether `pop` may find a block. */
  [[nodiscard]] bool may_have(BinSize size) const noexcept {
    return count_[size.place] != 0 || count_[size.place + 1] != 0;
  }
  [[nodiscard]] bool has_class(BinSize size) const noexcept { return count_[size.place] != 0; }
  /** @brief Returns whether a block whose request had this size can be pushed. */
  [[nodiscard]] bool has_room(BinSize size) const noexcept {
    return count_[size.place] < kMostInBin[size.place];
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[gnu::always_inline]] void push(Block* block, BinSize size) noexcept {
    const std::size_t place = size.place;
    block->next_quick = first_[place];
    first_[place] = block;
    count_[place] = count_[place] + 1;
    bytes_ += block->bytes;
    used_ |= std::uint64_t{1} << place;
  }

  /**
   * @brief Takes out all blocks of the class of `least` bytes and of larger classes.
   * @param all  a list of other blocks, or nullptr
   * @return the blocks followed by `all`, linked by `next_quick`
   */
  [[nodiscard]] Block* take_from(std::size_t least, Block* all) noexcept {
    return take(~std::uint64_t{0} << SizeClasses::of(least), all);
  }
  /** @brief Takes out all blocks of one class. @return the blocks, linked by `next_quick` */
  [[nodiscard]] Block* take_class(BinSize size) noexcept {
    return take(std::uint64_t{1} << size.place, nullptr);
  }

  static constexpr std::size_t kGranule = SizeClasses::kGranule;

 private:
  static constexpr int kLooks = 8;

  Block* take(std::uint64_t classes, Block* all) noexcept {
    std::uint64_t used = used_ & classes;
    used_ &= ~classes;
    for (; used != 0; used &= used - 1) {
      const auto place = static_cast<std::size_t>(std::countr_zero(used));
      for (Block* block = first_[place]; block != nullptr;) {
        bytes_ -= block->bytes;
        Block* const next = std::exchange(block->next_quick, all);
        all = std::exchange(block, next);
      }
      first_[place] = nullptr;
      count_[place] = 0;
    }
    return all;
  }

  // Takes the block with the least waste of the newest `kLooks` blocks of a class: the request's
  // class, otherwise the next one.
  [[gnu::noinline]] Block* pop_near(BinSize size, std::size_t most_waste) noexcept {
    Block* const found = pop_near(size.place, size.bytes, most_waste);
    return found != nullptr ? found : pop_near(size.place + 1, size.bytes, most_waste);
  }
  Block* pop_near(std::size_t place, std::size_t bytes, std::size_t most_waste) noexcept {
    Block* before = nullptr;
    Block* best = nullptr;
    Block* before_best = nullptr;
    std::size_t least = most_waste + 1;  // only less waste is accepted
    Block* block = first_[place];
    for (int looks = 0; block != nullptr && looks < kLooks && least != 0; ++looks) {
      const std::size_t spare = block->bytes - bytes;  // wraps around if the block is too small
      if (spare < least) {
        least = spare;
        best = block;
        before_best = before;
      }
      before = std::exchange(block, block->next_quick);
    }
    if (best == nullptr) return nullptr;
    if (before_best == nullptr) {
      first_[place] = best->next_quick;
    } else {
      before_best->next_quick = best->next_quick;
    }
    count_[place] = count_[place] - 1;
    bytes_ -= best->bytes;
    return best;
  }

  std::array<Block*, SizeClasses::kCount + 1> first_{};  // linked by `next_quick`
  std::array<Relaxed<std::uint16_t>, SizeClasses::kCount + 1> count_{};
  std::size_t bytes_ = 0;
  std::uint64_t used_ = 0;  // a bit for each bin that may have blocks
};

}  // namespace millrace
