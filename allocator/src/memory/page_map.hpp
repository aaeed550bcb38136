#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/block.hpp"

namespace millrace {

/**
 * @brief From an address to the block that starts there: a radix tree over 2 MiB pages of a 48-bit
 *        address space, and in each page the blocks that start in it, by offset.
 */
class PageMap {
 public:
  void insert(Block* block) {
    Page& page = page_of(block->address);
    page.insert(std::lower_bound(page.begin(), page.end(), block, by_address), block);
  }

  void erase(const Block* block) {
    Page& page = page_of(block->address);
    page.erase(std::lower_bound(page.begin(), page.end(), block, by_address));
  }

  [[nodiscard]] Block* find(const void* address) const noexcept {
    const std::uintptr_t page_number = number(address);
    const Branch* branch = root_[page_number >> kBranchBits & kRootMask].get();
    if (branch == nullptr || page_number >> (kRootBits + kBranchBits) != 0) return nullptr;
    const Page& page = (*branch)[page_number & kBranchMask];
    const auto it = std::lower_bound(page.begin(), page.end(), address,
                                     [](const Block* b, const void* a) { return b->address < a; });
    return it != page.end() && (*it)->address == address ? *it : nullptr;
  }

 private:
  static constexpr unsigned kPageBits = 21, kBranchBits = 14, kRootBits = 13;
  static constexpr std::uintptr_t kBranchMask = (std::uintptr_t{1} << kBranchBits) - 1;
  static constexpr std::uintptr_t kRootMask = (std::uintptr_t{1} << kRootBits) - 1;

  using Page = std::vector<Block*>;
  using Branch = std::array<Page, kBranchMask + 1>;

  static bool by_address(const Block* a, const Block* b) noexcept {
    return a->address < b->address;
  }
  static std::uintptr_t number(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kPageBits;
  }

  Page& page_of(const void* address) {
    const std::uintptr_t page_number = number(address);
    auto& branch = root_[page_number >> kBranchBits & kRootMask];
    if (branch == nullptr) branch = std::make_unique<Branch>();
    return (*branch)[page_number & kBranchMask];
  }

  std::vector<std::unique_ptr<Branch>> root_{kRootMask + 1};
};

}  // namespace millrace
