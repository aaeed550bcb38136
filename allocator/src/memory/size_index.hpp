#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/block.hpp"
#include "memory/size_bin.hpp"
#include "ordering/steps.hpp"

namespace millrace {

/**
 * @brief Free blocks by size, then by place. It finds the exact best fit.
 *
 * The index has two levels. A bin has the sizes of one 32nd of a power of two, and two bitmaps find
 * the next bin that has blocks. The blocks of a bin are in a treap. So a search takes the logarithm
 * of the number of blocks in one bin, which is small if sizes vary. The index allocates a row of
 * bins for each power of two that is ever used, and no memory for a block.
 *
 * @tparam Hook  the links in a free block that this index uses
 */
template <TreeHook WhileFree::*Hook>
class SizeIndex {
 public:
  void insert(Block* block);
  void erase(Block* block);

  /** @brief Returns the best fit: the first block of at least `bytes`, or nullptr. */
  [[nodiscard]] Block* first(std::size_t bytes) const;
  /** @brief Returns the block after `block`, or nullptr. `block` may have been erased. */
  [[nodiscard]] Block* after(const Block* block) const;
  /** @brief Returns the largest block, or nullptr. */
  [[nodiscard]] Block* last() const;

  [[nodiscard]] bool empty() const noexcept { return rows_in_use_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool contains(const Block* block) const;

 private:
  struct Row {
    std::uint32_t in_use = 0;
    std::array<Block*, SizeBin::kColumns> roots{};
  };
  // The order of the blocks does not depend on the priorities, which only balance the treap.
  static std::uint64_t priority(const Block* block) noexcept {
    return reinterpret_cast<std::uintptr_t>(block) * 0x9e3779b97f4a7c15;
  }
  static Block* least(Block* root) noexcept {
    for (; (root->free.*Hook).left != nullptr; root = (root->free.*Hook).left)
      ordering::count_steps(1);
    return root;
  }
  /** Returns the first block of the bins after `bin`, or nullptr. */
  [[nodiscard]] Block* least_behind(SizeBin bin) const noexcept;

  /** Returns a row of bins, or nullptr if no block of these sizes was ever inserted. */
  [[nodiscard]] Row* row_at(unsigned row) const noexcept {
    const std::uint8_t made = made_[row];
    return made == 0 ? nullptr : rows_[made - 1u].get();
  }
  Row& make_row(unsigned row);

  std::vector<std::unique_ptr<Row>> rows_;  // in the order in which they were made
  std::array<std::uint8_t, 64> made_{};     // for each row: its index in `rows_` plus 1, or 0
  std::uint64_t rows_in_use_ = 0;
  std::size_t size_ = 0, bytes_ = 0;
};

template <TreeHook WhileFree::*Hook>
auto SizeIndex<Hook>::make_row(unsigned row) -> Row& {
  Row& made = *rows_.emplace_back(std::make_unique<Row>());
  made_[row] = static_cast<std::uint8_t>(rows_.size());
  return made;
}

template <TreeHook WhileFree::*Hook>
void SizeIndex<Hook>::insert(Block* block) {
  const SizeBin bin = SizeBin::of(block->bytes);
  Row* const known = row_at(bin.row);
  Row& row = known != nullptr ? *known : make_row(bin.row);
  Block** at = &row.roots[bin.column];
  const std::uint64_t mine = priority(block);
  while (*at != nullptr && priority(*at) > mine) {
    ordering::count_steps(1);
    at = fits_before(block, *at) ? &((*at)->free.*Hook).left : &((*at)->free.*Hook).right;
  }
  // The block replaces the subtree `*at`, which is split into its left and right children.
  Block *rest = *at, **left = &(block->free.*Hook).left, **right = &(block->free.*Hook).right;
  *at = block;
  while (rest != nullptr) {
    ordering::count_steps(1);
    Block**& side = fits_before(rest, block) ? left : right;
    *side = rest;
    side = &side == &left ? &(rest->free.*Hook).right : &(rest->free.*Hook).left;
    rest = *side;
  }
  *left = *right = nullptr;
  row.in_use |= std::uint32_t{1} << bin.column;
  rows_in_use_ |= std::uint64_t{1} << bin.row;
  ++size_;
  bytes_ += block->bytes;
}

template <TreeHook WhileFree::*Hook>
void SizeIndex<Hook>::erase(Block* block) {
  const SizeBin bin = SizeBin::of(block->bytes);
  Row& row = *row_at(bin.row);
  Block** at = &row.roots[bin.column];
  while (*at != block) {
    ordering::count_steps(1);
    at = fits_before(block, *at) ? &((*at)->free.*Hook).left : &((*at)->free.*Hook).right;
  }
  Block *left = (block->free.*Hook).left, *right = (block->free.*Hook).right;
  while (left != nullptr && right != nullptr) {
    ordering::count_steps(1);
    if (priority(left) > priority(right)) {
      *at = left;
      at = &(left->free.*Hook).right;
      left = *at;
    } else {
      *at = right;
      at = &(right->free.*Hook).left;
      right = *at;
    }
  }
  *at = left != nullptr ? left : right;
  --size_;
  bytes_ -= block->bytes;
  if (row.roots[bin.column] != nullptr) return;
  row.in_use &= ~(std::uint32_t{1} << bin.column);
  if (row.in_use == 0) rows_in_use_ &= ~(std::uint64_t{1} << bin.row);
}

template <TreeHook WhileFree::*Hook>
Block* SizeIndex<Hook>::least_behind(SizeBin bin) const noexcept {
  const auto behind = [](auto bits, unsigned place) {
    using Bits = decltype(bits);
    const unsigned next = place + 1;
    return next >= sizeof(Bits) * 8 ? Bits{0} : static_cast<Bits>(bits >> next << next);
  };
  if ((rows_in_use_ >> bin.row & 1) != 0) {
    const Row& row = *row_at(bin.row);
    if (const std::uint32_t columns = behind(row.in_use, bin.column)) {
      return least(row.roots[static_cast<unsigned>(std::countr_zero(columns))]);
    }
  }
  const std::uint64_t rows = behind(rows_in_use_, bin.row);
  if (rows == 0) return nullptr;
  const Row& row = *row_at(static_cast<unsigned>(std::countr_zero(rows)));
  return least(row.roots[static_cast<unsigned>(std::countr_zero(row.in_use))]);
}

template <TreeHook WhileFree::*Hook>
Block* SizeIndex<Hook>::first(std::size_t bytes) const {
  const SizeBin bin = SizeBin::of(bytes);
  if (rows_in_use_ >> bin.row == 0) return nullptr;
  Block* best = nullptr;
  if ((rows_in_use_ >> bin.row & 1) != 0) {
    for (Block* at = row_at(bin.row)->roots[bin.column]; at != nullptr;) {
      ordering::count_steps(1);
      const bool enough = at->bytes >= bytes;
      if (enough) best = at;
      at = enough ? (at->free.*Hook).left : (at->free.*Hook).right;
    }
  }
  return best != nullptr ? best : least_behind(bin);
}

template <TreeHook WhileFree::*Hook>
Block* SizeIndex<Hook>::after(const Block* block) const {
  const SizeBin bin = SizeBin::of(block->bytes);
  Block* best = nullptr;
  if ((rows_in_use_ >> bin.row & 1) != 0) {
    for (Block* at = row_at(bin.row)->roots[bin.column]; at != nullptr;) {
      ordering::count_steps(1);
      const bool behind = fits_before(block, at);
      if (behind) best = at;
      at = behind ? (at->free.*Hook).left : (at->free.*Hook).right;
    }
  }
  return best != nullptr ? best : least_behind(bin);
}

template <TreeHook WhileFree::*Hook>
Block* SizeIndex<Hook>::last() const {
  if (rows_in_use_ == 0) return nullptr;
  const Row& row = *row_at(static_cast<unsigned>(std::bit_width(rows_in_use_)) - 1);
  Block* at = row.roots[static_cast<unsigned>(std::bit_width(row.in_use)) - 1];
  for (; (at->free.*Hook).right != nullptr; at = (at->free.*Hook).right) ordering::count_steps(1);
  return at;
}

template <TreeHook WhileFree::*Hook>
bool SizeIndex<Hook>::contains(const Block* block) const {
  const SizeBin bin = SizeBin::of(block->bytes);
  if (row_at(bin.row) == nullptr) return false;
  const Block* at = row_at(bin.row)->roots[bin.column];
  while (at != nullptr && at != block) {
    at = fits_before(block, at) ? (at->free.*Hook).left : (at->free.*Hook).right;
  }
  return at != nullptr;
}

}  // namespace millrace
