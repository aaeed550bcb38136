#include "memory/caching/range_pages.hpp"

#include <algorithm>
#include <exception>

#include "millrace/round_up.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

std::size_t round_down(std::size_t bytes, std::size_t multiple) {
  return bytes / multiple * multiple;
}

}  // namespace

std::size_t RangePages::unmap_free(Segment& range, std::size_t most, Lock& lock) {
  const auto is_free = [](const Block* block) {
    return block != nullptr && block->state == BlockState::free;
  };
  std::size_t released = 0;
  if (range.free_bytes < range.page || !range.may_have_free_page) return 0;
  range.may_have_free_page = false;  // putting a block with a page back sets it again
  for (Block* block = range.last; block != nullptr && released < most;) {
    ordering::count_steps(1);
    if (!is_free(block)) {
      block = block->previous;
      continue;
    }
    const std::byte* const end = block->address + block->bytes;
    while (is_free(block->previous)) block = block->previous;
    if (!has_page(range, block->address, end)) {
      block = block->previous;
      continue;
    }
    Block* before = nullptr;
    released += unmap_run(block, most - released, lock, before);
    block = before;
  }
  if (released >= most) range.may_have_free_page = true;  // not all blocks were inspected
  return released;
}

bool RangePages::has_page(const Segment& range, const std::byte* begin,
                          const std::byte* end) const {
  const std::size_t page = range.page;
  const auto from = static_cast<std::size_t>(begin - range.base);
  return round_up(from, page) + page <= static_cast<std::size_t>(end - range.base);
}

// Gives back whole pages, at most `most` bytes, of the run of free blocks that begins with `block`.
// Sets `before` to the block with which the search continues.
std::size_t RangePages::unmap_run(Block* block, std::size_t most, Lock& lock, Block*& before) {
  free_blocks_.claim(block);
  while (block->next != nullptr && block->next->state == BlockState::free) {
    Block* const next = block->next;
    free_blocks_.claim(next);
    block->points.join(next->points);
    stock_.heap.absorb(block, next);
  }
  bool complete = completions_.complete_on_host(block, lock);
  try {
    complete = complete && stale_.unmap_all(lock);  // pages mapped twice would not go back
  } catch (...) {
    free_blocks_.put(block);
    throw;
  }
  before = block->previous;
  if (!complete) {
    free_blocks_.put(block);
    return 0;
  }
  Block* const pages = keep(block, most);
  if (pages == nullptr) return 0;
  const std::size_t bytes = pages->bytes;
  unmap(pages, lock);
  before = pages->previous;
  while (before != nullptr && !before->has_memory()) before = before->previous;
  stock_.heap.vacate(pages);
  return bytes;
}

Block* RangePages::keep(Block* block, std::size_t most) {
  const std::size_t page = block->segment->page;
  const auto offset = static_cast<std::size_t>(block->address - block->segment->base);
  const std::size_t end = round_down(offset + block->bytes, page);
  std::size_t begin = round_up(offset, page);
  if (end > begin && end - begin > most) begin = end - round_down(most, page);
  if (end <= begin) {
    free_blocks_.put(block);
    return nullptr;
  }
  Block* pages = block;
  if (begin > offset) {
    pages = stock_.heap.split(block, begin - offset);
    free_blocks_.put(block);
  }
  if (pages->bytes > end - begin) free_blocks_.put(stock_.heap.split(pages, end - begin));
  return pages;
}

void RangePages::unmap(Block* pages, Lock& lock) {
  try {
    const Unlocked unlocked{lock};
    stock_.source.unmap(pages->address, pages->bytes);
  } catch (...) {
    free_blocks_.put(pages);
    throw;
  }
  stock_.turns.current().released(pages->bytes);
  reports_.released(pages->address, pages->bytes);
}

void RangePages::give_back_empty(Lock& lock) {
  if (!stock_.policy.expandable_segments) return;
  std::vector<AddressRange> empty;
  for (Segment* const range : std::vector<Segment*>{stock_.heap.ranges()}) {
    if (range->first != nullptr) continue;
    empty.push_back({range->base, range->addresses});
    stock_.heap.remove_range(*range);
  }
  if (empty.empty()) return;
  const Unlocked unlocked{lock};
  std::exception_ptr failure;
  for (const AddressRange& range : empty) {
    try {
      stock_.source.give_back(range);
    } catch (...) {  // the other ranges are given back all the same
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

// Claims these pages, each if it lies in one free block: splits it off that block.
std::vector<Block*> RangePages::claim(std::span<const AddressRange> pages) {
  std::vector<Block*> claimed;
  const auto begins_before = [](const AddressRange& some, const std::byte* address) {
    return static_cast<const std::byte*>(some.base) < address;
  };
  for (Segment* const range : stock_.heap.ranges()) {
    auto wanted = pages.begin();
    for (Block* block = range->first; block != nullptr; block = block->next) {
      ordering::count_steps(1);
      wanted = std::lower_bound(wanted, pages.end(), block->address, begins_before);
      if (wanted == pages.end()) break;
      auto* const begin = static_cast<std::byte*>(wanted->base);
      const auto room = static_cast<std::size_t>(block->address + block->bytes - begin);
      const std::size_t offset = static_cast<std::size_t>(begin - range->base);
      const bool whole_pages =
          wanted->bytes != 0 && offset % range->page == 0 && wanted->bytes % range->page == 0;
      const bool is_inside = begin < block->address + block->bytes && wanted->bytes <= room;
      if (block->state != BlockState::free || !is_inside || !whole_pages) continue;
      free_blocks_.claim(block);
      Block* middle = block;
      if (begin > block->address) {
        middle = stock_.heap.split(block, static_cast<std::size_t>(begin - block->address));
        free_blocks_.put(block);
      }
      if (middle->bytes > wanted->bytes) {
        free_blocks_.put(stock_.heap.split(middle, wanted->bytes));
      }
      claimed.push_back(middle);
      block = middle;
    }
  }
  return claimed;
}

std::size_t RangePages::unmap_these(std::span<const AddressRange> pages, Lock& lock) {
  const std::vector<Block*> claimed = claim(pages);
  std::size_t released = 0;
  auto left = claimed.begin();
  try {
    while (left != claimed.end()) {
      Block* const block = *left++;
      if (!completions_.complete_on_host(block, lock)) {
        free_blocks_.put(block);
        continue;
      }
      unmap(block, lock);
      released += block->bytes;
      stock_.heap.vacate(block);
    }
  } catch (...) {  // the block that threw is on its shelf again
    while (left != claimed.end()) free_blocks_.put(*left++);
    throw;
  }
  give_back_empty(lock);
  return released;
}

void RangePages::release(const Segment& range) {
  const auto mapped = [](const Block* block) { return block != nullptr && block->has_memory(); };
  for (const Block* block = range.first; block != nullptr;) {
    std::byte* const begin = block->address;
    std::size_t bytes = 0;
    for (; mapped(block); block = block->next) bytes += block->bytes;
    if (bytes > 0) stock_.source.unmap(begin, bytes);
    if (block == nullptr) break;
    if (block->state == BlockState::stale) stock_.source.end_move(block->address, block->bytes);
    block = block->next;
  }
  stock_.source.give_back({range.base, range.addresses});
}

}  // namespace millrace
