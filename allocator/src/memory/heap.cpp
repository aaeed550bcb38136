#include "memory/heap.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace millrace {

Heap::~Heap() {
  for (auto& [base, segment] : segments_) {
    for (Block* block = segment->first; block != nullptr;) {
      delete std::exchange(block, block->next);
    }
  }
}

Block* Heap::make() {
  if (spare_.empty()) return new Block;
  Block* block = spare_.back().release();
  spare_.pop_back();
  return block;
}

Block* Heap::make(Segment& segment, std::byte* address, std::size_t bytes) {
  Block* block = make();
  *block = Block{};
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
  Block* block = make(*segment, segment->base, bytes);
  segment->first = segment->last = block;
  insert(std::move(segment));
  return block;
}

Segment& Heap::add_range(void* base, std::size_t addresses, StreamId home) {
  auto range = std::make_unique<Segment>();
  range->base = static_cast<std::byte*>(base);
  range->addresses = addresses;
  range->number = ranges_.size() + 1;
  range->home = home;
  Segment& added = *range;
  ranges_.push_back(&added);
  insert(std::move(range));
  return added;
}

Block* Heap::fill(Segment& range, Block* hole, std::size_t bytes) {
  if (hole != nullptr) {
    if (bytes < hole->bytes) split(hole, bytes)->state = BlockState::absent;
    hole->state = BlockState::claimed;
    return hole;
  }
  Block* block = make(range, range.base + range.bytes, bytes);
  block->previous = range.last;
  (range.last == nullptr ? range.first : range.last->next) = block;
  range.last = block;
  range.bytes += bytes;
  return block;
}

void Heap::vacate(Block* block) {
  block->state = BlockState::absent;
  block->lane = {};
  block->points.clear();
  const auto hole = [](const Block* b) { return b != nullptr && b->state == BlockState::absent; };
  if (hole(block->next)) absorb(block, block->next);
  if (hole(block->previous)) {
    block = block->previous;
    absorb(block, block->next);
  }
  if (block->next != nullptr) return;
  Segment& range = *block->segment;
  range.bytes -= block->bytes;
  range.last = block->previous;
  (range.last == nullptr ? range.first : range.last->next) = nullptr;
  spare_.emplace_back(block);
}

std::unique_ptr<Segment> Heap::extract(Segment* segment) {
  return std::move(segments_.extract(segment->base).mapped());
}

void Heap::insert(std::unique_ptr<Segment> segment) {
  std::byte* const base = segment->base;
  segments_.emplace(base, std::move(segment));
}

void Heap::forget(std::unique_ptr<Segment> segment) { spare_.emplace_back(segment->first); }

Block* Heap::split(Block* block, std::size_t bytes) {
  Block* rest = make(*block->segment, block->address + bytes, block->bytes - bytes);
  rest->lane = block->lane;
  rest->points = block->points;
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
  spare_.emplace_back(right);
}

void Heap::put(Block* block) {
  block->state = BlockState::free;
  lanes(block->segment->small)[block->lane].insert(block);
}

void Heap::claim(Block* block) {
  Lanes& all = lanes(block->segment->small);
  const auto lane = all.find(block->lane);
  lane->second.erase(block);
  if (lane->second.empty()) all.erase(lane);
  block->state = BlockState::claimed;
}

FreeSet* Heap::lane(bool small, StreamId stream) noexcept {
  Lanes& all = lanes(small);
  const auto it = all.find(stream);
  return it == all.end() ? nullptr : &it->second;
}

std::size_t Heap::free_blocks() const noexcept {
  std::size_t count = 0;
  for (const Lanes& pool : lanes_) {
    for (const auto& [stream, blocks] : pool) count += blocks.size();
  }
  return count;
}

void Heap::check() const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error{std::string{"heap invariant broken: "} + what};
  };
  std::size_t free_in_segments = 0;
  const std::byte* last_end = nullptr;
  for (const auto& [base, segment] : segments_) {
    require(base == segment->base && base >= last_end, "segments do not overlap");
    last_end = base + segment->bytes;
    const std::byte* at = base;
    const Block* previous = nullptr;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      require(block->address == at, "blocks tile their segment");
      require(block->previous == previous, "neighbours are linked both ways");
      require(block->segment == segment.get(), "a block knows its segment");
      require(block->bytes > 0, "no block is empty");
      require((live_.find(block->address) == block) == (block->state == BlockState::live),
              "exactly the live blocks are in the page map");
      if (block->state == BlockState::free) {
        const auto lane = lanes(segment->small).find(block->lane);
        require(
            lane != lanes(segment->small).end() && lane->second.contains(const_cast<Block*>(block)),
            "a free block is in its lane");
        ++free_in_segments;
      }
      const bool absent = block->state == BlockState::absent;
      require(!absent || (segment->growable() && block->next != nullptr),
              "only ranges have holes, and none at the end");
      require(!absent || block->next->state != BlockState::absent, "neighbouring holes are one");
      at += block->bytes;
      previous = block;
    }
    require(at == last_end, "blocks fill their segment");
    require(segment->last == previous, "a segment knows its last block");
    require(!segment->growable() || segment->bytes <= segment->addresses,
            "a range has addresses for what it holds");
  }
  require(free_in_segments == free_blocks(), "lanes hold free blocks only");
}

void join_points(std::vector<Point>& into, const std::vector<Point>& other) {
  for (const Point point : other) {
    const auto it =
        std::lower_bound(into.begin(), into.end(), point,
                         [](const Point& a, const Point& b) { return a.stream < b.stream; });
    if (it == into.end() || it->stream != point.stream) {
      into.insert(it, point);
    } else {
      it->marker = std::max(it->marker, point.marker);
    }
  }
}

}  // namespace millrace
