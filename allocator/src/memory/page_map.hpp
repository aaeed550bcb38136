#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "memory/block.hpp"
#include "ordering/steps.hpp"

namespace millrace {

/**
 * @brief From an address to the live block that starts there: a table of the 2 MiB pages of a
 * 48-bit address space; where several blocks start in one, 16 parts of it, and so on.
 *
 * An area with one block takes an entry; one with several, a node of 136 bytes. So neither many
 * small blocks in a page nor many pages make it slower, and no block is hashed.
 *
 * `find` may be called while another thread changes the map: a block that stays live is found. Of
 * an address that is not live it may find what was there before.
 */
class PageMap {
 public:
  PageMap() = default;
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;
  ~PageMap() {
    for (const auto& branch : root_) delete branch.load();
  }

  void insert(Block* block) { insert(entry_of_page(block->address), kPageBits, block); }

  void erase(const Block* block) {
    erase(entry_of_page(block->address), kPageBits, block->address);
  }

  [[nodiscard]] Block* find(const void* address) const noexcept {
    const std::uintptr_t page = number(address);
    if (page >> (kRootBits + kBranchBits) != 0) return nullptr;
    const Branch* const branch = root_[page >> kBranchBits].load(std::memory_order_acquire);
    if (branch == nullptr) return nullptr;
    Entry entry = (*branch)[page & kBranchMask].get();
    for (unsigned bits = kPageBits; entry.is_node() && bits >= kNodeBits; bits -= kNodeBits) {
      ordering::count_steps(1);
      entry = entry.node()->entries[part(address, bits)].get();
    }
    if (entry.is_node()) return nullptr;  // changed on the way: nothing live is there
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
  /** An entry that is read while it is written. */
  class Cell {
   public:
    [[nodiscard]] Entry get() const noexcept { return entry_.load(std::memory_order_acquire); }
    void set(Entry entry) noexcept { entry_.store(entry, std::memory_order_release); }
    [[nodiscard]] bool empty() const noexcept { return get().empty(); }

   private:
    std::atomic<Entry> entry_{};
  };
  struct Node {
    std::array<Cell, std::size_t{1} << kNodeBits> entries;
    unsigned used = 0;  // of them
  };
  using Branch = std::array<Cell, kBranchMask + 1>;

  static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kPageBits;
  }
  /** Which part of an area of 2^bits bytes the address is in. */
  static std::size_t part(const void* address, unsigned bits) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> (bits - kNodeBits) &
           ((std::uintptr_t{1} << kNodeBits) - 1);
  }

  Cell& entry_of_page(const void* address);
  void insert(Cell& entry, unsigned bits, Block* block);
  void erase(Cell& entry, unsigned bits, const void* address);
  Node* make_node();

  std::array<std::atomic<Branch*>, std::size_t{1} << kRootBits> root_{};
  std::deque<Node> nodes_;    // all that were ever made
  std::vector<Node*> spare_;  // of them those that are not in use
};

}  // namespace millrace
