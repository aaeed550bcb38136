#include "memory/page_map.hpp"

#include <algorithm>

namespace millrace {

PageMap::Entry& PageMap::entry_of_page(const void* address) {
  const std::uintptr_t page = number(address);
  auto& branch = root_.at(page >> kBranchBits);
  if (branch == nullptr) branch = std::make_unique<Branch>();
  return (*branch)[page & kBranchMask];
}

PageMap::Node* PageMap::make_node() {
  if (spare_.empty()) return &nodes_.emplace_back();
  Node* const node = spare_.back();
  spare_.pop_back();
  *node = {};
  return node;
}

void PageMap::insert(Entry& entry, unsigned bits, Block* block) {
  Entry* at = &entry;
  for (; at->is_node(); bits -= kNodeBits) at = &at->node()->entries[part(block->address, bits)];
  if (at->empty()) {
    *at = Entry{block};
    return;
  }
  Block* const other = at->block();  // one node a level, until they part
  for (; part(other->address, bits) == part(block->address, bits); bits -= kNodeBits) {
    Node* const node = make_node();
    *at = Entry{node};
    at = &node->entries[part(block->address, bits)];
  }
  Node* const node = make_node();
  node->entries[part(other->address, bits)] = Entry{other};
  node->entries[part(block->address, bits)] = Entry{block};
  *at = Entry{node};
}

void PageMap::erase(Entry& entry, unsigned bits, const void* address) {
  if (!entry.is_node()) {
    entry = {};
    return;
  }
  Node* const node = entry.node();
  erase(node->entries[part(address, bits)], bits - kNodeBits, address);
  // A node with one block that is not a node is kept: the next one is likely to come back.
  if (!std::ranges::all_of(node->entries, &Entry::empty)) return;
  spare_.push_back(node);
  entry = {};
}

std::size_t PageMap::bytes() const noexcept {
  const auto branches = std::ranges::count_if(root_, [](const auto& b) { return b != nullptr; });
  return static_cast<std::size_t>(branches) * sizeof(Branch) + nodes_.size() * sizeof(Node) +
         root_.size() * sizeof(root_[0]);
}

}  // namespace millrace
