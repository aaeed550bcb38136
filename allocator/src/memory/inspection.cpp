#include <algorithm>
#include <stdexcept>
#include <string>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error{std::string{"allocator invariant broken: "} + what};
}

}  // namespace

UsableBytes CachingAllocator::State::usable(StreamId stream) const {
  UsableBytes result;
  const bool runs = policy.sharing != Sharing::own_stream;  // neighbours can be merged on demand
  for (const auto& [base, segment] : heap.segments()) {
    std::size_t run = 0;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (may_have(*block, stream)) {
        run = runs ? run + block->bytes : block->bytes;
        result.total += block->bytes;
        result.largest = std::max(result.largest, run);
        continue;
      }
      run = 0;
      if (block->has_memory() && block->state != BlockState::live) result.stranded += block->bytes;
    }
  }
  return result;
}

UsableBytes CachingAllocator::usable(StreamRef stream) {
  stream = state_->device.resolve(stream);
  state_->graphs.tidy();
  const State::Lock lock = state_->enter();
  const State::Paused paused{*state_};
  state_->empty_quick();
  return state_->usable(stream.id());
}

MemoryStatistics CachingAllocator::statistics() {
  state_->graphs.tidy();
  const GraphPoolStatistics graph_pools = state_->graphs.statistics();
  const State::Lock lock = state_->enter();
  state_->turns.add_all();
  state_->empty_quick();
  state_->sweep();
  MemoryStatistics result = state_->meter.statistics(state_->device);
  result.graph_pools = graph_pools;
  result.segments = static_cast<std::size_t>(std::ranges::count_if(
      state_->heap.segments(), [](const auto& held) { return held.second->first != nullptr; }));
  result.free_blocks = state_->shelves.blocks() + state_->pending.size();
  for (ShareStatistics& share : result.streams) {
    const Lane* const lane = state_->shelves.find(share.stream);
    if (lane == nullptr) continue;
    for (const Shelf& shelf : lane->shelves) share.cached += shelf.bytes();
  }
  return result;
}

Tag CachingAllocator::tag(std::string_view name) {
  const State::Lock lock = state_->enter();
  return state_->meter.tag(name);
}

ScopeId CachingAllocator::open_scope() {
  const State::Lock lock = state_->enter();
  state_->empty_quick_small();  // blocks that wait there are active still
  state_->turns.add_all();
  return state_->meter.open_scope();
}

MemoryGauges CachingAllocator::peaks(ScopeId scope) {
  const State::Lock lock = state_->enter();
  state_->empty_quick_small();
  state_->turns.add_all();
  return state_->meter.peaks(scope);
}

void CachingAllocator::close_scope(ScopeId scope) {
  const State::Lock lock = state_->enter();
  state_->turns.add_all();
  state_->meter.close_scope(scope);
}

void CachingAllocator::observe(AllocationObserver* observer) {
  const State::Lock lock = state_->enter();
  const State::Paused paused{*state_};
  state_->observer = observer;  // fronts stay shut while there is one
}

void CachingAllocator::observe_all(AllocationObserver& observer) {
  const State::Lock lock = state_->enter();
  const State::Paused paused{*state_};
  state_->report_all(observer);
  state_->observer = &observer;
}

void CachingAllocator::report_all(AllocationObserver& observer) const {
  const State::Lock lock = state_->enter();
  const State::Paused paused{*state_};
  state_->report_all(observer);
}

void CachingAllocator::State::report_all(AllocationObserver& observer) {
  empty_quick();
  std::vector<const Block*> live;
  for (const auto& [base, segment] : heap.segments()) {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    const auto report = [&] {
      if (bytes != 0) observer.segment_acquired(begin, bytes);
      bytes = 0;
    };
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (!block->has_memory()) {
        report();
        continue;
      }
      if (bytes == 0) begin = block->address;
      bytes += block->bytes;
      if (block->state == BlockState::live) live.push_back(block);
    }
    report();
  }
  std::ranges::sort(live, {}, [](const Block* block) { return block->live.id; });
  const Frontier nothing;
  for (const Block* const block : live) {
    const StreamId owner = block->live.owner.id();
    observer.allocated({block->live.id, block->address, block->live.requested, block->bytes, owner,
                        owner, meter.name(block->tag), nothing, nothing});
  }
}

std::size_t CachingAllocator::block_size(const void* address) const {
  if (state_->graphs.any()) {
    if (const std::size_t bytes = state_->graphs.block_size(address)) return bytes;
    if (state_->graphs.hides(address)) return 0;
  }
  const State::Lock lock = state_->enter();
  const Block* block = state_->heap.live().find(address);
  return block == nullptr || block->state != BlockState::live ? 0 : block->bytes;
}

bool CachingAllocator::is_live(const void* address) const { return block_size(address) != 0; }

std::optional<StreamRef> CachingAllocator::owner(const void* address) const {
  if (state_->graphs.any() && state_->graphs.block_size(address) != 0) return {};
  const Block* const block = state_->heap.live().find(address);
  if (block == nullptr || block->state != BlockState::live) return {};
  return block->live.owner;
}

std::vector<CachingAllocator::SegmentLayout> CachingAllocator::layout() const {
  const State::Lock lock = state_->enter();
  const State::Paused paused{*state_};
  state_->empty_quick();
  std::vector<SegmentLayout> result;
  for (const auto& [base, segment] : state_->heap.segments()) {
    bool begins = true;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (!block->has_memory()) {
        begins = true;
        continue;
      }
      if (begins) result.push_back({.base = block->address, .small = segment->small});
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

void CachingAllocator::State::check() const {
  heap.check();
  std::size_t reserved = 0;
  std::size_t allocated = 0;
  std::size_t held_back = 0, free_blocks = 0;
  for (const auto& [base, segment] : heap.segments()) {
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (block->has_memory()) reserved += block->bytes;
      require(block->state != BlockState::claimed && block->state != BlockState::filling,
              "nothing is claimed between calls");
      if (block->state == BlockState::live) allocated += block->bytes;
      const bool free = block->state == BlockState::free;
      const bool drains =
          free && policy.sharing != Sharing::own_stream && block->waits == BlockWaits::for_all;
      if (drains || block->state == BlockState::pending) held_back += block->bytes;
      free_blocks += free ? 1 : 0;
      require(!free || shelves.holds(block), "free blocks are where they are looked for");
    }
  }
  require(shelves.blocks() == free_blocks, "nothing else is looked for");
  const MemoryGauges& bytes = meter.bytes();
  require(bytes.reserved.current == reserved, "reserved is the sum of the segments");
  require(bytes.allocated.current == allocated, "allocated is the sum of the live blocks");
  require(bytes.active.current == allocated + held_back, "active is allocated and draining");
  require(bytes.cached.current == reserved - bytes.active.current, "reserved = active + cached");
}

void CachingAllocator::check_invariants() const {
  const State::Lock lock = state_->enter();
  const State::Paused paused{*state_};
  state_->empty_quick();
  state_->check();
}

}  // namespace millrace
