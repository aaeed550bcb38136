#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "memory/block.hpp"
#include "memory/class_bins.hpp"

namespace millrace {

/**
 * @brief Blocks in bins by the exact size of their request.
 *
 * They are few, so that emptying all bins is short. A bin is for the size that was last asked for
 * among those that share it: blocks of sizes that are not requested again are not kept.
 */
class ExactBins {
 public:
  static constexpr BinSize size_of(std::size_t bytes) noexcept {
    return {bytes, bytes * 0x9e3779b97f4a7c15 >> (64 - std::bit_width(kBins - 1))};
  }

  /** @brief The newest block of that size, taken out; nullptr: none is here. */
  [[nodiscard]] Block* pop(BinSize size) noexcept {
    Bin& bin = bins_[size.place];
    Block* const block = bin.first;
    if (block == nullptr || bin.bytes != size.bytes) return nullptr;
    bin.first = block->next_quick;
    blocks_ = blocks_ - 1;
    return block;
  }

  /** @brief Whether `pop` may find one. As `expects` and `blocks`, may be asked without the lock.
   */
  [[nodiscard]] bool may_have(BinSize size) const noexcept {
    const Bin& bin = bins_[size.place];
    return bin.bytes == size.bytes && bin.first != nullptr;
  }

  /** @brief Blocks of this size are kept from now on, where none of another size is in the way. */
  void expect(BinSize size) noexcept {
    Bin& bin = bins_[size.place];
    if (bin.first == nullptr) bin.bytes = size.bytes;
  }
  /** @brief Whether a block of this size is kept now. */
  [[nodiscard]] bool expects(BinSize size) const noexcept {
    return blocks_ < kMost && bins_[size.place].bytes == size.bytes;
  }
  /** @brief A block of a size that is expected. */
  void push(Block* block, BinSize size) noexcept {
    Bin& bin = bins_[size.place];
    block->next_quick = bin.first;
    bin.first = block;
    used_ |= std::uint32_t{1} << size.place;
    blocks_ = blocks_ + 1;
  }

  /** @brief Takes all out. @return one of them, linked to the others by `next_quick` */
  [[nodiscard]] Block* take_all() noexcept {
    Block* all = nullptr;
    for (std::uint32_t used = used_; used != 0; used &= used - 1) {
      const auto place = static_cast<std::size_t>(std::countr_zero(used));
      Block* const some = take_all(bins_[place], place);
      if (some == nullptr) continue;
      Block* last = some;
      while (last->next_quick != nullptr) last = last->next_quick;
      last->next_quick = all;
      all = some;
    }
    return all;
  }

  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }

  static constexpr std::size_t kMost = 64;  ///< blocks

 private:
  static constexpr std::size_t kBins = 32;

  struct Bin {
    Relaxed<std::size_t> bytes = 0;   // of the requests
    Relaxed<Block*> first = nullptr;  // linked by `next_quick`
  };

  Block* take_all(Bin& bin, std::size_t place) noexcept {
    Block* const first = bin.first;
    bin.first = nullptr;
    used_ &= ~(std::uint32_t{1} << place);
    for (const Block* block = first; block != nullptr; block = block->next_quick) {
      blocks_ = blocks_ - 1;
    }
    return first;
  }

  std::array<Bin, kBins> bins_{};
  std::uint32_t used_ = 0;  // bins that may hold some
  Relaxed<std::size_t> blocks_ = 0;
};

}  // namespace millrace
