#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "memory/block.hpp"

namespace millrace {

/**
 * @brief From an address to the live block that starts there: a table of the 2 MiB pages of a
 * 48-bit address space; where several blocks start in one, 16 parts of it, and so on.
 *
 * An area with one block takes an entry; one with several, a node of 128 bytes. So neither many
 * small blocks in a page nor many pages make it slower, and no block is hashed.
 */
class PageMap {
 public:
  void insert(Block* block) { insert(entry_of_page(block->address), kPageBits, block); }

  void erase(const Block* block) {
    erase(entry_of_page(block->address), kPageBits, block->address);
  }

  [[nodiscard]] Block* find(const void* address) const noexcept {
    const std::uintptr_t page = number(address);
    if (page >> (kRootBits + kBranchBits) != 0) return nullptr;
    const Branch* const branch = root_[page >> kBranchBits].get();
    if (branch == nullptr) return nullptr;
    Entry entry = (*branch)[page & kBranchMask];
    for (unsigned bits = kPageBits; entry.is_node(); bits -= kNodeBits) {
      entry = entry.node()->entries[part(address, bits)];
    }
    Block* const block = entry.block();
    return block != nullptr && block->address == address ? block : nullptr;
  }

  /** @brief Host bytes that it takes. */
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  static constexpr unsigned kPageBits = 21, kBranchBits = 14, kRootBits = 13, kNodeBits = 4;
  static constexpr std::uintptr_t kBranchMask = (std::uintptr_t{1} << kBranchBits) - 1;

  struct Node;

  /** Nothing, a block, or a node with several. */
  class Entry {
   public:
    Entry() = default;
    explicit Entry(Block* block) : value_(reinterpret_cast<std::uintptr_t>(block)) {}
    explicit Entry(Node* node) : value_(reinterpret_cast<std::uintptr_t>(node) | 1) {}
    [[nodiscard]] bool empty() const noexcept { return value_ == 0; }
    [[nodiscard]] bool is_node() const noexcept { return (value_ & 1) != 0; }
    [[nodiscard]] Block* block() const noexcept { return reinterpret_cast<Block*>(value_); }
    [[nodiscard]] Node* node() const noexcept { return reinterpret_cast<Node*>(value_ - 1); }

   private:
    std::uintptr_t value_ = 0;
  };
  struct Node {
    std::array<Entry, std::size_t{1} << kNodeBits> entries;
  };
  using Branch = std::array<Entry, kBranchMask + 1>;

  static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kPageBits;
  }
  /** Which part of an area of 2^bits bytes the address is in. */
  static std::size_t part(const void* address, unsigned bits) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> (bits - kNodeBits) &
           ((std::uintptr_t{1} << kNodeBits) - 1);
  }

  Entry& entry_of_page(const void* address);
  void insert(Entry& entry, unsigned bits, Block* block);
  void erase(Entry& entry, unsigned bits, const void* address);
  Node* make_node();

  std::vector<std::unique_ptr<Branch>> root_{std::size_t{1} << kRootBits};
  std::deque<Node> nodes_;    // all that were ever made
  std::vector<Node*> spare_;  // of them those that are not in use
};

}  // namespace millrace
