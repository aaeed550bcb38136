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
 * A bin serves one size at a time, of several that share the bin: the last one that was requested
 * while the bin was empty. So blocks are kept only if their size was requested before. They are
 * few, so emptying all bins takes little time.
 */
class ExactBins {
 public:
  static constexpr BinSize size_of(std::size_t bytes) noexcept {
    return {bytes, bytes * 0x9e3779b97f4a7c15 >> (64 - std::bit_width(kBins - 1))};
  }

  /** @brief Takes out the newest block of this size; nullptr if there is none. */
  [[nodiscard]] Block* pop(BinSize size) noexcept {
    Bin& bin = bins_[size.place];
    Block* const block = bin.first;
    if (block == nullptr || bin.bytes != size.bytes) return nullptr;
    bin.first = block->next_quick;
    blocks_ = blocks_ - 1;
    return block;
  }

  /** @brief Returns whether `pop` may find a block. Like `expects` and `blocks`, it may be called
   * without the lock. */
  [[nodiscard]] bool may_have(BinSize size) const noexcept {
    const Bin& bin = bins_[size.place];
    return bin.bytes == size.bytes && bin.first != nullptr;
  }

  /** @brief Keeps blocks of this size from now on, unless the bin has blocks of another size. */
  void expect(BinSize size) noexcept {
    Bin& bin = bins_[size.place];
    if (bin.first == nullptr) bin.bytes = size.bytes;
  }
  /** @brief Returns whether a block of this size can be pushed. */
  [[nodiscard]] bool expects(BinSize size) const noexcept {
    return blocks_ < kMost && bins_[size.place].bytes == size.bytes;
  }
  /** @brief Adds a block of an expected size. */
  void push(Block* block, BinSize size) noexcept {
    Bin& bin = bins_[size.place];
    block->next_quick = bin.first;
    bin.first = block;
    used_ |= std::uint32_t{1} << size.place;
    blocks_ = blocks_ + 1;
  }

  /** @brief Takes out all blocks. @return the blocks, linked by `next_quick` */
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
    Relaxed<std::size_t> bytes = 0;   // size of the requests
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
  std::uint32_t used_ = 0;  // a bit for each bin that may have blocks
  Relaxed<std::size_t> blocks_ = 0;
};

}  // namespace millrace
