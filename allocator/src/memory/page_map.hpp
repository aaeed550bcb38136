#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ordering/steps.hpp"

namespace millrace {

/**
 * @brief Maps an address to the item at that address.
 *
 * A table has an entry for each 2 MiB page of a 48-bit address space. An entry has the one item of
 * its page, or a node with entries for the 8 parts of the page. The entries of a node are the same
 * for smaller areas. A node takes 64 bytes, one cache line. So neither many small blocks in a page
 * nor many pages slow a search down, and no address is hashed.
 *
 * `find` may be called while another thread changes the map. It then finds each item that stays in
 * the map. For an address without an item it may return an item that was there before.
 *
 * @tparam Key  the item's address. It must not change while the item is in the map, and two items
 *              must not have the same address
 */
template <typename Item, std::byte* Item::*Key>
class PageMap {
 public:
  PageMap() = default;
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;
  ~PageMap() {
    for (const auto& branch : root_) delete branch.load();
  }

  void insert(Item* item) { insert(entry_of_page(item->*Key), kPageBits, item); }

  void erase(const Item* item) { erase(entry_of_page(item->*Key), kPageBits, item->*Key); }

  [[nodiscard]] Item* find(const void* address) const noexcept {
    const Branch* const branch = branch_of(number(address));
    if (branch == nullptr) return nullptr;
    Entry entry = (*branch)[number(address) & kBranchMask].get();
    for (unsigned bits = kPageBits; entry.is_node() && bits >= kNodeBits; bits -= kNodeBits) {
      ordering::count_steps(1);
      entry = entry.node()->entries[part(address, bits)].get();
    }
    if (entry.is_node()) return nullptr;  // another thread changed the map: no item is there
    Item* const item = entry.item();
    return item != nullptr && item->*Key == address ? item : nullptr;
  }

  /**
   * @brief Calls `each` with the items from `begin` up to but not including `end`, in address
   *        order. No other thread may change the map meanwhile.
   */
  template <typename Each>
  void visit(const void* begin, const void* end, const Each& each) const {
    for (std::uintptr_t page = number(begin), last = number(end); page <= last; ++page) {
      ordering::count_steps(1);
      const Branch* const branch = branch_of(page);
      if (branch == nullptr) {
        page |= kBranchMask;
        continue;
      }
      visit((*branch)[page & kBranchMask].get(), [&](Item* item) {
        if (item->*Key >= begin && item->*Key < end) each(*item);
      });
    }
  }

  /** @brief Returns the host memory that the map takes, in bytes. */
  [[nodiscard]] std::size_t bytes() const noexcept {
    const auto branches =
        std::ranges::count_if(root_, [](const auto& branch) { return branch.load() != nullptr; });
    return static_cast<std::size_t>(branches) * sizeof(Branch) + nodes_.size() * sizeof(Node) +
           sizeof(root_);
  }

 private:
  static constexpr unsigned kPageBits = 21, kBranchBits = 14, kRootBits = 13, kNodeBits = 3;
  static_assert(kPageBits % kNodeBits == 0, "the smallest parts are bytes");
  static constexpr std::uintptr_t kBranchMask = (std::uintptr_t{1} << kBranchBits) - 1;

  struct Node;

  /** Nothing, an item, or a node with several items. */
  class Entry {
   public:
    Entry() = default;
    explicit Entry(Item* item) : value_(reinterpret_cast<std::uintptr_t>(item)) {}
    explicit Entry(Node* node) : value_(reinterpret_cast<std::uintptr_t>(node) | 1) {}
    [[nodiscard]] bool empty() const noexcept { return value_ == 0; }
    [[nodiscard]] bool is_node() const noexcept { return (value_ & 1) != 0; }
    [[nodiscard]] Item* item() const noexcept { return reinterpret_cast<Item*>(value_); }
    [[nodiscard]] Node* node() const noexcept { return reinterpret_cast<Node*>(value_ - 1); }

   private:
    std::uintptr_t value_ = 0;
  };
  /** An entry that one thread may read while another one writes it. */
  class Cell {
   public:
    [[nodiscard]] Entry get() const noexcept { return entry_.load(std::memory_order_acquire); }
    void set(Entry entry) noexcept { entry_.store(entry, std::memory_order_release); }

   private:
    std::atomic<Entry> entry_{};
  };
  struct alignas(64) Node {
    std::array<Cell, std::size_t{1} << kNodeBits> entries;

    [[nodiscard]] bool empty() const noexcept {
      return std::ranges::all_of(entries, [](const Cell& cell) { return cell.get().empty(); });
    }
  };
  using Branch = std::array<Cell, kBranchMask + 1>;

  static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kPageBits;
  }
  /** Returns which of the 8 parts of an area of 2^bits bytes the address is in. */
  static std::size_t part(const void* address, unsigned bits) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> (bits - kNodeBits) &
           ((std::uintptr_t{1} << kNodeBits) - 1);
  }

  [[nodiscard]] const Branch* branch_of(std::uintptr_t page) const noexcept {
    if (page >> (kRootBits + kBranchBits) != 0) return nullptr;
    return root_[page >> kBranchBits].load(std::memory_order_acquire);
  }

  Cell& entry_of_page(const void* address) {
    const std::uintptr_t page = number(address);
    auto& root = root_.at(page >> kBranchBits);
    Branch* branch = root.load(std::memory_order_relaxed);
    if (branch == nullptr) root.store(branch = new Branch, std::memory_order_release);
    return (*branch)[page & kBranchMask];
  }

  template <typename Each>
  static void visit(Entry entry, const Each& each) {
    if (entry.empty()) return;
    if (!entry.is_node()) return each(entry.item());
    for (const Cell& below : entry.node()->entries) {
      ordering::count_steps(1);
      visit(below.get(), each);
    }
  }

  void insert(Cell& entry, unsigned bits, Item* item);
  void erase(Cell& entry, unsigned bits, const void* address);
  Node* make_node();

  std::array<std::atomic<Branch*>, std::size_t{1} << kRootBits> root_{};
  std::deque<Node> nodes_;    // all nodes ever made; never deleted, as `find` may still read them
  std::vector<Node*> spare_;  // unused nodes, with empty entries
};

// Returns a node with empty entries. A node is kept as a spare only when all its entries are empty.
template <typename Item, std::byte* Item::*Key>
auto PageMap<Item, Key>::make_node() -> Node* {
  if (spare_.empty()) return &nodes_.emplace_back();
  Node* const node = spare_.back();
  spare_.pop_back();
  return node;
}

template <typename Item, std::byte* Item::*Key>
void PageMap<Item, Key>::insert(Cell& entry, unsigned bits, Item* item) {
  Cell* at = &entry;
  for (; at->get().is_node(); bits -= kNodeBits) {
    ordering::count_steps(1);
    at = &at->get().node()->entries[part(item->*Key, bits)];
  }
  const Entry found = at->get();
  if (found.empty()) return at->set(Entry{item});
  // Makes one node for each level down to the one where the two items are in different parts. The
  // entry is set last, so `find` sees either the old item or all nodes with both items.
  Item* const other = found.item();
  Node* const top = make_node();
  Node* node = top;
  for (; part(other->*Key, bits) == part(item->*Key, bits); bits -= kNodeBits) {
    ordering::count_steps(1);
    Node* const below = make_node();
    node->entries[part(item->*Key, bits)].set(Entry{below});
    node = below;
  }
  node->entries[part(other->*Key, bits)].set(found);
  node->entries[part(item->*Key, bits)].set(Entry{item});
  at->set(Entry{top});
}

// A node is removed only when it is empty. One that has a single item left is kept, since a program
// is likely to use the node's other addresses again.
template <typename Item, std::byte* Item::*Key>
void PageMap<Item, Key>::erase(Cell& entry, unsigned bits, const void* address) {
  std::array<Cell*, kPageBits / kNodeBits> nodes;  // the entries of the nodes above the item
  std::size_t depth = 0;
  Cell* at = &entry;
  for (; at->get().is_node(); bits -= kNodeBits) {
    ordering::count_steps(1);
    nodes[depth++] = at;
    at = &at->get().node()->entries[part(address, bits)];
  }
  at->set({});
  while (depth > 0) {
    Cell& above = *nodes[--depth];
    Node* const node = above.get().node();
    if (!node->empty()) return;
    above.set({});
    spare_.push_back(node);
  }
}

}  // namespace millrace
