#include "memory/heap.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace millrace {

void Heap::keep_spare(Block* block) noexcept { block->next = std::exchange(spare_, block); }

Block* Heap::make() {
  if (spare_ == nullptr) return rows_.take();
  Block* const block = std::exchange(spare_, spare_->next);
  // The fields of a live block are written when it is allocated.
  block->previous = block->next = nullptr;
  block->lane = StreamId{};
  block->waits = BlockWaits::nothing;
  block->begins_run = false;
  block->points.clear();
  block->free = {};
  block->run = 0;
  return block;
}

UseRecord* Heap::make_use_record() {
  if (spare_use_records_ == nullptr) return &use_records_.emplace_back();
  return std::exchange(spare_use_records_, spare_use_records_->next_spare);
}

void Heap::forget(UseRecord* use_record) {
  use_record->uses.clear();
  use_record->next_spare = std::exchange(spare_use_records_, use_record);
}

Block* Heap::make(Segment& segment, std::byte* address, std::size_t bytes) {
  Block* const block = make();
  block->address = address;
  block->bytes = bytes;
  block->segment = &segment;
  block->state = BlockState::claimed;
  return block;
}

Block* Heap::add_segment(void* base, std::size_t bytes, bool small) {
  auto segment = std::make_unique<Segment>();
  segment->base = static_cast<std::byte*>(base);
  segment->bytes = bytes;
  segment->small = small;
  if (numbered_) segment->number = ++newest_number_;
  Block* block = make(*segment, segment->base, bytes);
  segment->first = segment->last = block;
  insert(std::move(segment));
  return block;
}

Segment& Heap::add_range(void* base, std::size_t addresses, StreamId home, std::size_t page,
                         bool small) {
  std::unique_ptr<Segment> range;
  if (spare_ranges_.empty()) {
    range = std::make_unique<Segment>();
  } else {
    range = std::move(spare_ranges_.back());
    spare_ranges_.pop_back();
    *range = {};
  }
  range->base = static_cast<std::byte*>(base);
  range->addresses = addresses;
  range->page = page;
  range->small = small;
  range->number = ++newest_number_;
  range->home = home;
  Segment& added = *range;
  ranges_.reserve(ranges_.size() + 1);
  insert(std::move(range));
  ranges_.push_back(&added);
  return added;
}

void Heap::remove_range(Segment& range) {
  spare_ranges_.reserve(spare_ranges_.size() + 1);
  std::erase(ranges_, &range);
  spare_ranges_.push_back(std::move(segments_.extract(range.base).mapped()));
}

// The block is in the heap before its memory is mapped, since the lock is dropped for that call:
// other threads then see the addresses as taken, and grow elsewhere or after them. Until it is
// mapped, the state `filling` excludes the block from reserved memory.
Block* Heap::fill(Segment& range, Block* hole, std::size_t bytes) {
  if (hole != nullptr) {
    holes_.erase(hole);
    if (bytes < hole->bytes) {
      Block* const rest = split(hole, bytes);
      rest->state = BlockState::absent;
      holes_.insert(rest);
    }
    hole->state = BlockState::filling;
    return hole;
  }
  Block* block = make(range, range.base + range.bytes, bytes);
  block->state = BlockState::filling;
  block->previous = range.last;
  (range.last == nullptr ? range.first : range.last->next) = block;
  range.last = block;
  range.bytes += bytes;
  if (range.small) small_bytes_ += bytes;
  return block;
}

// Neighboring holes are merged, so that a later request finds one gap of the full size. A hole at
// the end is removed instead: the range grows there again.
void Heap::vacate(Block* block) {
  block->state = BlockState::absent;
  block->lane = StreamId{};
  block->points.clear();
  const auto hole = [](const Block* b) { return b != nullptr && b->state == BlockState::absent; };
  if (Block* const right = block->next; hole(right)) {
    holes_.erase(right);
    absorb(block, right);
  }
  if (Block* const left = block->previous; hole(left)) {
    holes_.erase(left);
    absorb(left, block);
    block = left;
  }
  if (block->next != nullptr) return holes_.insert(block);
  Segment& range = *block->segment;
  range.bytes -= block->bytes;
  if (range.small) small_bytes_ -= block->bytes;
  range.last = block->previous;
  (range.last == nullptr ? range.first : range.last->next) = nullptr;
  keep_spare(block);
}

std::unique_ptr<Segment> Heap::extract(Segment* segment) {
  if (segment->small) small_bytes_ -= segment->bytes;
  return std::move(segments_.extract(segment->base).mapped());
}

void Heap::insert(std::unique_ptr<Segment> segment) {
  std::byte* const base = segment->base;
  const std::size_t small = segment->small ? segment->bytes : 0;
  if (!segments_.try_emplace(base, std::move(segment)).second) {
    throw std::logic_error{"two segments begin at one address"};
  }
  small_bytes_ += small;
}

void Heap::forget(std::unique_ptr<Segment> segment) { keep_spare(segment->first); }

Block* Heap::split(Block* block, std::size_t bytes) {
  Block* rest = make(*block->segment, block->address + bytes, block->bytes - bytes);
  rest->lane = block->lane;
  rest->points.assign(block->points);
  rest->previous = block;
  rest->next = block->next;
  (block->next == nullptr ? block->segment->last : block->next->previous) = rest;
  block->next = rest;
  block->bytes = bytes;
  return rest;
}

void Heap::absorb(Block* left, Block* right) {
  left->bytes += right->bytes;
  left->next = right->next;
  (right->next == nullptr ? left->segment->last : right->next->previous) = left;
  keep_spare(right);
}

void Heap::check() const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error{std::string{"heap invariant broken: "} + what};
  };
  const std::byte* last_end = nullptr;
  std::size_t small = 0;
  for (const auto& [base, segment] : segments_) {
    require(base == segment->base && base >= last_end, "segments do not overlap");
    last_end = base + segment->bytes;
    if (segment->small) small += segment->bytes;
    const std::byte* at = base;
    const Block* previous = nullptr;
    std::size_t free = 0;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      require(block->address == at, "blocks tile their segment");
      require(block->previous == previous, "neighbors are linked both ways");
      require(block->segment == segment.get(), "a block knows its segment");
      require(block->bytes > 0 && block->bytes <= segment->bytes,
              "no block is empty, or larger than its segment");
      require((live_.find(block->address) == block) == (block->state == BlockState::live),
              "exactly the live blocks are in the page map");
      if (block->state == BlockState::free) free += block->bytes;
      const bool absent = block->state == BlockState::absent;
      require(!absent || (segment->growable() && block->next != nullptr),
              "only ranges have holes, and none at the end");
      require(!absent || block->next->state != BlockState::absent, "neighboring holes are one");
      at += block->bytes;
      previous = block;
    }
    require(at == last_end, "blocks fill their segment");
    require(segment->free_bytes == free, "a segment knows how much of it is free");
    require(segment->last == previous, "a segment knows its last block");
    require(!segment->growable() || segment->bytes <= segment->addresses,
            "a range has addresses for what it holds");
  }
  require(small == small_bytes_, "the bytes of the small pool are known");
}

}  // namespace millrace
