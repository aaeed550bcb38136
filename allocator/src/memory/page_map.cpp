#include "memory/page_map.hpp"

#include <algorithm>

namespace millrace {

PageMap::Cell& PageMap::entry_of_page(const void* address) {
  const std::uintptr_t page = number(address);
  auto& root = root_.at(page >> kBranchBits);
  Branch* branch = root.load(std::memory_order_relaxed);
  if (branch == nullptr) root.store(branch = new Branch, std::memory_order_release);
  return (*branch)[page & kBranchMask];
}

PageMap::Node* PageMap::make_node() {
  if (spare_.empty()) return &nodes_.emplace_back();
  Node* const node = spare_.back();
  spare_.pop_back();
  for (Cell& cell : node->entries) cell.set({});
  return node;
}

void PageMap::insert(Cell& entry, unsigned bits, Block* block) {
  Cell* at = &entry;
  for (; at->get().is_node(); bits -= kNodeBits) {
    at = &at->get().node()->entries[part(block->address, bits)];
  }
  const Entry found = at->get();
  if (found.empty()) return at->set(Entry{block});
  // One node a level, until they part. It is shown when it holds both.
  Block* const other = found.block();
  Node* const top = make_node();
  Node* node = top;
  for (; part(other->address, bits) == part(block->address, bits); bits -= kNodeBits) {
    Node* const below = make_node();
    node->entries[part(block->address, bits)].set(Entry{below});
    node = below;
  }
  node->entries[part(other->address, bits)].set(found);
  node->entries[part(block->address, bits)].set(Entry{block});
  at->set(Entry{top});
}

void PageMap::erase(Cell& entry, unsigned bits, const void* address) {
  if (!entry.get().is_node()) return entry.set({});
  Node* const node = entry.get().node();
  erase(node->entries[part(address, bits)], bits - kNodeBits, address);
  // A node with one block that is not a node is kept: the next one is likely to come back.
  if (!std::ranges::all_of(node->entries, &Cell::empty)) return;
  entry.set({});
  spare_.push_back(node);
}

std::size_t PageMap::bytes() const noexcept {
  const auto branches =
      std::ranges::count_if(root_, [](const auto& branch) { return branch.load() != nullptr; });
  return static_cast<std::size_t>(branches) * sizeof(Branch) + nodes_.size() * sizeof(Node) +
         sizeof(root_);
}

}  // namespace millrace
