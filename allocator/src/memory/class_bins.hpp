#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/block.hpp"

namespace millrace {

/** @brief Sizes up to 1 MiB in classes, four for each power of two. */
struct SizeClasses {
  static constexpr std::size_t kGranule = 512, kLargest = std::size_t{1} << 20;
  static constexpr std::size_t kCount = 41;

  // Of the size in granules, the highest bit and the two below it.
  static constexpr std::size_t of(std::size_t bytes) noexcept {
    const std::size_t units = (bytes + kGranule - 1) / kGranule;
    const auto shift = static_cast<std::size_t>(std::bit_width(units | 4)) - 3;
    return 4 * shift + (units >> shift);
  }
};

/** @brief Bytes of a request, and where their bin is: found once, and asked for several times. */
struct BinSize {
  std::size_t bytes, place;
};

/** @brief Bytes that a bin keeps at most. */
inline constexpr std::size_t kMostBytesInBin = std::size_t{4} << 20;

/** @brief Blocks that a bin keeps, by class: as many as these bytes have, within limits. */
inline constexpr auto kMostInBin = [] {
  constexpr std::size_t kMostBlocks = 256;
  std::array<std::uint16_t, SizeClasses::kCount> most{};
  for (std::size_t bytes = SizeClasses::kGranule; bytes <= SizeClasses::kLargest;
       bytes += SizeClasses::kGranule) {  // the largest of a class comes last
    most[SizeClasses::of(bytes)] =
        static_cast<std::uint16_t>(std::min(kMostBytesInBin / bytes, kMostBlocks));
  }
  return most;
}();

/**
 * @brief Small blocks in bins by size class.
 *
 * A request takes a block of its own class that is large enough and wastes no more than an eighth
 * of the request: the best of the newest few. What a bin holds is bounded in blocks and bytes, so
 * that little is kept from merging.
 */
class ClassBins {
 public:
  static constexpr std::size_t kLargest = SizeClasses::kLargest;  ///< bytes of a block's request

  /**
   * @brief A block for a request of that size, taken out; nullptr if none fits.
   * @param most_waste  bytes that the block may have beyond the request
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

  /** @brief Whether `pop` may find a block. May be asked without the lock, as `has_room`. */
  [[nodiscard]] bool may_have(BinSize size) const noexcept {
    return count_[size.place] != 0 || count_[size.place + 1] != 0;
  }
  [[nodiscard]] bool has_class(BinSize size) const noexcept { return count_[size.place] != 0; }
  /** @brief Whether a block whose request had `bytes` can be pushed. */
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
   * @brief Takes out the blocks of the classes from that of `least` bytes on.
   * @return `all` and they, linked by `next_quick`
   */
  [[nodiscard]] Block* take_from(std::size_t least, Block* all) noexcept {
    return take(~std::uint64_t{0} << SizeClasses::of(least), all);
  }
  /** @brief The same for the class of a size. */
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

  // Of the newest few blocks the one that wastes least, if that is little enough.
  [[gnu::noinline]] Block* pop_near(BinSize size, std::size_t most_waste) noexcept {
    Block* const found = pop_near(size.place, size.bytes, most_waste);
    return found != nullptr ? found : pop_near(size.place + 1, size.bytes, most_waste);
  }
  Block* pop_near(std::size_t place, std::size_t bytes, std::size_t most_waste) noexcept {
    Block* before = nullptr;
    Block* best = nullptr;
    Block* before_best = nullptr;
    std::size_t least = most_waste + 1;  // bytes to spare that are too many
    Block* block = first_[place];
    for (int looks = 0; block != nullptr && looks < kLooks && least != 0; ++looks) {
      const std::size_t spare = block->bytes - bytes;  // huge where the block is too small
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
  std::uint64_t used_ = 0;  // bins that may hold some
};

}  // namespace millrace
