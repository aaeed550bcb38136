#include <algorithm>
#include <stdexcept>
#include <string>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error{std::string{"allocator invariant broken: "} + what};
}

void check(const Stock& stock) {
  stock.heap.check();
  std::size_t reserved = 0;
  std::size_t allocated = 0;
  std::size_t held_back = 0, free_blocks = 0;
  for (const auto& [base, segment] : stock.heap.segments()) {
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (block->has_memory()) reserved += block->bytes;
      require(block->state != BlockState::claimed && block->state != BlockState::filling,
              "nothing is claimed between calls");
      if (block->state == BlockState::live) allocated += block->bytes;
      const bool free = block->state == BlockState::free;
      const bool drains = free && stock.lanes_mix && block->waits == BlockWaits::for_all;
      if (drains || block->state == BlockState::pending) held_back += block->bytes;
      free_blocks += free ? 1 : 0;
      require(!free || stock.shelves.holds(block), "free blocks are where they are looked for");
    }
  }
  require(stock.shelves.blocks() == free_blocks, "nothing else is looked for");
  const MemoryGauges& bytes = stock.meter.bytes();
  require(bytes.reserved.current == reserved, "reserved is the sum of the segments");
  require(bytes.allocated.current == allocated, "allocated is the sum of the live blocks");
  require(bytes.active.current == allocated + held_back, "active is allocated and draining");
  require(bytes.cached.current == reserved - bytes.active.current, "reserved = active + cached");
}

}  // namespace

UsableBytes CachingAllocator::usable(StreamRef stream) {
  stream = state_->stock.device.resolve(stream);
  state_->graphs.tidy();
  const Lock lock = state_->enter();
  const FrontUpkeep::Paused paused{state_->upkeep};
  state_->upkeep.empty();
  return state_->survey.usable(stream.id());
}

MemoryStatistics CachingAllocator::statistics() {
  state_->graphs.tidy();
  const GraphPoolStatistics graph_pools = state_->graphs.statistics();
  const Lock lock = state_->enter();
  state_->stock.turns.add_all();
  state_->upkeep.empty();
  state_->completions.sweep();
  MemoryStatistics result = state_->stock.meter.statistics(state_->stock.device);
  result.graph_pools = graph_pools;
  result.segments = static_cast<std::size_t>(
      std::ranges::count_if(state_->stock.heap.segments(),
                            [](const auto& held) { return held.second->first != nullptr; }));
  result.free_blocks = state_->stock.shelves.blocks() + state_->completions.pending().size();
  for (ShareStatistics& share : result.streams) {
    const Lane* const lane = state_->stock.shelves.find(share.stream);
    if (lane == nullptr) continue;
    for (const Shelf& shelf : lane->shelves) share.cached += shelf.bytes();
  }
  return result;
}

Tag CachingAllocator::tag(std::string_view name) {
  const Lock lock = state_->enter();
  return state_->stock.meter.tag(name);
}

ScopeId CachingAllocator::open_scope() {
  const Lock lock = state_->enter();
  state_->upkeep.empty_small();  // blocks that wait in fronts count as active only after this
  state_->stock.turns.add_all();
  return state_->stock.meter.open_scope();
}

MemoryGauges CachingAllocator::peaks(ScopeId scope) {
  const Lock lock = state_->enter();
  state_->upkeep.empty_small();
  state_->stock.turns.add_all();
  return state_->stock.meter.peaks(scope);
}

void CachingAllocator::close_scope(ScopeId scope) {
  const Lock lock = state_->enter();
  state_->stock.turns.add_all();
  state_->stock.meter.close_scope(scope);
}

void CachingAllocator::observe(AllocationObserver* observer) {
  const Lock lock = state_->enter();
  const FrontUpkeep::Paused paused{state_->upkeep};
  state_->reports.send_to(observer);  // fronts stay shut while an observer is set
}

void CachingAllocator::observe_all(AllocationObserver& observer) {
  const Lock lock = state_->enter();
  const FrontUpkeep::Paused paused{state_->upkeep};
  state_->upkeep.empty();
  state_->reports.report_all(state_->stock.heap, observer);
  state_->reports.send_to(&observer);
}

void CachingAllocator::report_all(AllocationObserver& observer) const {
  const Lock lock = state_->enter();
  const FrontUpkeep::Paused paused{state_->upkeep};
  state_->upkeep.empty();
  state_->reports.report_all(state_->stock.heap, observer);
}

std::size_t CachingAllocator::block_size(const void* address) const {
  if (state_->graphs.any()) {
    if (const std::size_t bytes = state_->graphs.block_size(address)) return bytes;
    if (state_->graphs.hides(address)) return 0;
  }
  const Lock lock = state_->enter();
  const Block* block = state_->stock.heap.live().find(address);
  return block == nullptr || block->state != BlockState::live ? 0 : block->bytes;
}

bool CachingAllocator::is_live(const void* address) const { return block_size(address) != 0; }

std::optional<StreamRef> CachingAllocator::owner(const void* address) const {
  if (state_->graphs.any() &&
      (state_->graphs.block_size(address) != 0 || state_->graphs.hides(address))) {
    return {};
  }
  const Block* const block = state_->stock.heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return {};
  return block->live.owner;
}

std::vector<CachingAllocator::SegmentLayout> CachingAllocator::layout() const {
  const Lock lock = state_->enter();
  const FrontUpkeep::Paused paused{state_->upkeep};
  state_->upkeep.empty();
  std::vector<SegmentLayout> result;
  for (const auto& [base, segment] : state_->stock.heap.segments()) {
    bool begins = true;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (!block->has_memory()) {
        begins = true;
        continue;
      }
      if (begins)
        result.push_back(
            {.base = block->address, .small = segment->small, .in_range = segment->growable()});
      begins = false;
      SegmentLayout& out = result.back();
      const bool live = block->state == BlockState::live;
      if (live) out.stream = block->live.owner;
      out.blocks.push_back({out.bytes, block->bytes, live ? block->live.requested : 0, live});
      out.bytes += block->bytes;
    }
  }
  return result;
}

void CachingAllocator::restore(std::span<const SegmentLayout> segments,
                               std::span<const RangeLayout> ranges) {
  const Lock lock = state_->enter();
  state_->restoring.restore(segments, ranges);
}

void CachingAllocator::check_invariants() const {
  const Lock lock = state_->enter();
  const FrontUpkeep::Paused paused{state_->upkeep};
  state_->upkeep.empty();
  check(state_->stock);
}

}  // namespace millrace
