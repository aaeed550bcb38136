#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "memory/rows.hpp"
#include "ordering/steps.hpp"

namespace millrace {

/**
 * @brief Maps an address to the item at that address.
 *
 * A branch has an entry for each 2 MiB page of 1 GiB of a 48-bit address space. A table has a place
 * for each of 512 branches in a row. A branch whose place there is taken is found through two more
 * levels: a table by the bits above, and a table of the branches of those 512 GiB. An entry has the
 * one item of its page, or a node with 8 entries, which three consecutive bits of an address
 * select. An entry of a node has nothing, one item, or a node that selects by lower bits. Bits in
 * which the items below an entry do not differ have no node. A node takes 64 bytes, one cache line.
 * So neither many small blocks in a page nor many pages slow a search down.
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

  void insert(Item* item);

  void erase(const Item* item) noexcept;

  [[nodiscard]] Item* find(const void* address) const noexcept {
    const Branch* const branch = branch_of(number(address));
    if (branch == nullptr) return nullptr;
    Entry entry = branch->cells[number(address) & kBranchMask].get();
    for (unsigned above = kPageBits; entry.is_node() && entry.shift() < above;) {
      ordering::count_steps(1);
      above = entry.shift();
      entry = entry.below(address).get();
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
      visit(branch->cells[page & kBranchMask].get(), [&](Item* item) {
        if (item->*Key >= begin && item->*Key < end) each(*item);
      });
    }
  }

  /** @brief Returns the host memory that the map takes beyond the object itself, in bytes. */
  [[nodiscard]] std::size_t bytes() const noexcept {
    return branches_.size() * sizeof(Branch) + tables_.size() * sizeof(Table<Branch>) +
           nodes_.allocated() * sizeof(Node);
  }

 private:
  static constexpr unsigned kPageBits = 21, kBranchBits = 9, kTableBits = 9, kNodeBits = 3;
  // The shift in a link between unused nodes. A `find` that still reads such a node ends there.
  static constexpr unsigned kSpareShift = 31;
  static constexpr std::uintptr_t kBranchMask = (std::uintptr_t{1} << kBranchBits) - 1;

  struct Node;

  struct Cell;

  /** Nothing, an item, or a node with several items and the lowest bit that selects its entries. */
  class Entry {
   public:
    Entry() = default;
    explicit Entry(Item* item) : value_(reinterpret_cast<std::uintptr_t>(item)) {}
    Entry(Node* node, unsigned shift)
        : value_(reinterpret_cast<std::uintptr_t>(node) | shift << 1 | 1) {}
    [[nodiscard]] bool empty() const noexcept { return value_ == 0; }
    [[nodiscard]] bool is_node() const noexcept { return (value_ & 1) != 0; }
    [[nodiscard]] Item* item() const noexcept { return reinterpret_cast<Item*>(value_); }
    [[nodiscard]] Node* node() const noexcept {
      return reinterpret_cast<Node*>(value_ & ~std::uintptr_t{63});
    }
    [[nodiscard]] unsigned shift() const noexcept { return value_ >> 1 & 31; }
    /** The lowest bit above those that select the node's entries. */
    [[nodiscard]] unsigned top() const noexcept { return shift() + kNodeBits; }
    /** Returns the node's entry for an address. */
    [[nodiscard]] Cell& below(const void* address) const noexcept {
      return node()->entries[reinterpret_cast<std::uintptr_t>(address) >> shift() &
                             ((std::uintptr_t{1} << kNodeBits) - 1)];
    }

   private:
    std::uintptr_t value_ = 0;
  };
  /** An entry that one thread may read while another one writes it. */
  struct Cell {
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
  struct Branch {
    std::uintptr_t number;  // of all branches of the address space
    std::array<Cell, kBranchMask + 1> cells{};
  };
  /** Pointers that one thread may read while another one writes them. */
  template <typename T>
  using Table = std::array<std::atomic<T*>, std::size_t{1} << kTableBits>;

  static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kPageBits;
  }
  static std::size_t place(std::uintptr_t branch) noexcept {
    return branch & ((std::uintptr_t{1} << kTableBits) - 1);
  }
  [[nodiscard]] Branch* branch_of(std::uintptr_t page) const noexcept {
    const std::uintptr_t number = page >> kBranchBits;
    Branch* const found = first_[place(number)].load(std::memory_order_acquire);
    if (found == nullptr || found->number == number) return found;
    return further_branch(number);
  }
  [[nodiscard]] Branch* further_branch(std::uintptr_t number) const noexcept;
  Branch* make_branch(std::uintptr_t number);

  Cell& entry_of_page(const void* address) {
    const std::uintptr_t page = number(address);
    Branch* branch = branch_of(page);
    if (branch == nullptr) branch = make_branch(page >> kBranchBits);
    return branch->cells[page & kBranchMask];
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

  static std::uintptr_t key(const Item* item) noexcept {
    return reinterpret_cast<std::uintptr_t>(item->*Key);
  }
  static unsigned highest_bit(std::uintptr_t bits) noexcept {
    return static_cast<unsigned>(std::bit_width(bits)) - 1;
  }
  static Item* any_item(Entry entry);
  static unsigned shift_of(unsigned differ, unsigned above, Entry found, const Item* item);
  Node* make_node();

  Table<Branch> first_{};           // a branch for each place, the first one that was made
  Table<Table<Branch>> further_{};  // the other branches, by the bits above and by the place
  std::vector<std::unique_ptr<Branch>> branches_;  // all of them
  std::vector<std::unique_ptr<Table<Branch>>> tables_;
  Rows<Node, 8, 64> nodes_;  // all nodes ever made; never deleted, as `find` may still read them
  Node* spare_ = nullptr;    // unused nodes; the first entry of each has the next one
};

template <typename Item, std::byte* Item::*Key>
auto PageMap<Item, Key>::further_branch(std::uintptr_t number) const noexcept -> Branch* {
  if (number >> 2 * kTableBits != 0) return nullptr;
  const Table<Branch>* const table = further_[number >> kTableBits].load(std::memory_order_acquire);
  return table == nullptr ? nullptr : (*table)[place(number)].load(std::memory_order_acquire);
}

template <typename Item, std::byte* Item::*Key>
auto PageMap<Item, Key>::make_branch(std::uintptr_t number) -> Branch* {
  if (number >> 2 * kTableBits != 0) throw std::out_of_range{"an address has more than 48 bits"};
  std::atomic<Branch*>* at = &first_[place(number)];
  if (at->load(std::memory_order_relaxed) != nullptr) {
    auto& further = further_[number >> kTableBits];
    Table<Branch>* table = further.load(std::memory_order_relaxed);
    if (table == nullptr) {
      table = tables_.emplace_back(std::make_unique<Table<Branch>>()).get();
      further.store(table, std::memory_order_release);
    }
    at = &(*table)[place(number)];
  }
  std::unique_ptr<Branch> branch{new Branch{number}};
  Branch* const made = branches_.emplace_back(std::move(branch)).get();
  at->store(made, std::memory_order_release);
  return made;
}

// Returns a node with empty entries.
template <typename Item, std::byte* Item::*Key>
auto PageMap<Item, Key>::make_node() -> Node* {
  if (spare_ == nullptr) return nodes_.take();
  Node* const node = spare_;
  Cell& next = node->entries.front();
  spare_ = next.get().node();
  next.set({});
  return node;
}

// Returns an item of the entry, which is not empty.
template <typename Item, std::byte* Item::*Key>
Item* PageMap<Item, Key>::any_item(Entry entry) {
  while (entry.is_node()) {
    const auto& entries = entry.node()->entries;
    entry = std::ranges::find_if(entries, [](const Cell& c) { return !c.get().empty(); })->get();
  }
  return entry.item();
}

// Returns the lowest bit that selects the entries of a new node, for an item and what is found at
// its place.
// differ: the highest bit in which the two differ; it must select an entry, too
// above: the lowest bit that selects an entry of the node above
//
// It is a multiple of three, as far as the bits of the nodes above and below allow it. But two
// items that are near each other for their alignment probably have many neighbors of one size. The
// bits then start at their distance, so that such neighbors use at least half of the entries.
template <typename Item, std::byte* Item::*Key>
unsigned PageMap<Item, Key>::shift_of(unsigned differ, unsigned above, Entry found,
                                      const Item* item) {
  const unsigned least = differ < kNodeBits ? 0 : differ - kNodeBits + 1;
  const unsigned most = std::max(least, above < kNodeBits ? 0 : above - kNodeBits);
  const unsigned usual = std::min(differ - differ % kNodeBits, most);
  if (found.is_node()) return std::max(usual, found.top());
  const std::uintptr_t a = key(item), b = key(found.item());
  const unsigned distance = highest_bit(a > b ? a - b : b - a);
  const auto alignment = static_cast<unsigned>(std::countr_zero(a | b));
  const bool are_near = distance <= alignment + 1 && differ <= distance + 1;
  return are_near ? std::max(std::min(distance, most), least) : usual;
}

template <typename Item, std::byte* Item::*Key>
void PageMap<Item, Key>::insert(Item* item) {
  Cell& page = entry_of_page(item->*Key);
  Cell* at = &page;
  Entry found = at->get(), last;  // the last node on the way
  while (found.is_node()) {
    ordering::count_steps(1);
    last = found;
    at = &found.below(item->*Key);
    found = at->get();
  }
  if (found.empty() && last.empty()) return at->set(Entry{item});
  const Item* const other = any_item(found.empty() ? last : found);
  const unsigned differ = highest_bit(key(item) ^ key(other));
  if (found.empty() && differ < last.top()) return at->set(Entry{item});
  // The new node comes above the first one that selects by lower bits only.
  unsigned above = kPageBits;
  at = &page;
  found = at->get();
  while (found.is_node() && found.top() > differ) {
    ordering::count_steps(1);
    above = found.shift();
    at = &found.below(item->*Key);
    found = at->get();
  }
  const Entry made{make_node(), shift_of(differ, above, found, item)};
  made.below(other->*Key).set(found);
  made.below(item->*Key).set(Entry{item});
  at->set(made);  // last, so that `find` sees the old entry or all of the node
}

// A node is removed only when it is empty. One that has a single item left is kept, since a program
// is likely to use the node's other addresses again.
template <typename Item, std::byte* Item::*Key>
void PageMap<Item, Key>::erase(const Item* item) noexcept {
  std::array<Cell*, kPageBits> nodes;  // the entries of the nodes above the item
  std::size_t depth = 0;
  Cell* at = &entry_of_page(item->*Key);
  for (Entry here = at->get(); here.is_node(); here = at->get()) {
    ordering::count_steps(1);
    nodes[depth++] = at;
    at = &here.below(item->*Key);
  }
  at->set({});
  while (depth > 0) {
    Cell& above = *nodes[--depth];
    Node* const node = above.get().node();
    if (!node->empty()) return;
    above.set({});
    node->entries.front().set({spare_, kSpareShift});
    spare_ = node;
  }
}

}  // namespace millrace
