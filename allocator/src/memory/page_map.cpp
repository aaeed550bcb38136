#include "memory/page_map.hpp"

#include <algorithm>

#include "ordering/steps.hpp"

namespace millrace {

PageMap::Cell& PageMap::entry_of_page(const void* address) {
  const std::uintptr_t page = number(address);
  auto& root = root_.at(page >> kBranchBits);
  Branch* branch = root.load(std::memory_order_relaxed);
  if (branch == nullptr) root.store(branch = new Branch, std::memory_order_release);
  return (*branch)[page & kBranchMask];
}

// Its entries are empty: those of a node that is given back are.
PageMap::Node* PageMap::make_node() {
  if (spare_.empty()) return &nodes_.emplace_back();
  Node* const node = spare_.back();
  spare_.pop_back();
  return node;
}

void PageMap::insert(Cell& entry, unsigned bits, Block* block) {
  Cell* at = &entry;
  Node* node = nullptr;
  for (; at->get().is_node(); bits -= kNodeBits) {
    ordering::count_steps(1);
    node = at->get().node();
    at = &node->entries[part(block->address, bits)];
  }
  const Entry found = at->get();
  if (found.empty()) {
    at->set(Entry{block});
    if (node != nullptr) ++node->used;
    return;
  }
  // One node a level, until they part. It is shown when it holds both.
  Block* const other = found.block();
  Node* const top = make_node();
  node = top;
  for (; part(other->address, bits) == part(block->address, bits); bits -= kNodeBits) {
    ordering::count_steps(1);
    Node* const below = make_node();
    node->entries[part(block->address, bits)].set(Entry{below});
    node->used = 1;
    node = below;
  }
  node->entries[part(other->address, bits)].set(found);
  node->entries[part(block->address, bits)].set(Entry{block});
  node->used = 2;
  at->set(Entry{top});
}

// A node with one block that is not a node is kept: the next one is likely to come back.
void PageMap::erase(Cell& entry, unsigned bits, const void* address) {
  std::array<Cell*, kPageBits / kNodeBits> nodes;  // that lead there
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
    if (--node->used != 0) return;
    above.set({});
    spare_.push_back(node);
  }
}

std::size_t PageMap::bytes() const noexcept {
  const auto branches =
      std::ranges::count_if(root_, [](const auto& branch) { return branch.load() != nullptr; });
  return static_cast<std::size_t>(branches) * sizeof(Branch) + nodes_.size() * sizeof(Node) +
         sizeof(root_);
}

}  // namespace millrace
