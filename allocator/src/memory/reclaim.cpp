// Serves a request after the device or the limit refused new memory.

#include <limits>

#include "memory/caching_state.hpp"

namespace millrace {

Block* CachingAllocator::State::reclaim(const Request& request, Lock& lock) {
  ++stock.meter.counts().retries;
  if (stock.lanes_mix) {
    if (Block* block = search.find_any(request, lock)) return block;
    if (Block* block = ask_callbacks(request, lock)) return block;
  }
  // Memory that another thread is giving back is neither in a cache nor on the device. Once it is
  // this thread's turn, the request can find it.
  const GivingOrder::Turn turn = giving_back.turn(lock);
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  for (const std::size_t enough : {stock.policy.expandable_segments ? kAll : request.bytes, kAll}) {
    const std::size_t released = giving_back.release_free_memory(0, enough, lock);
    if (Block* block = search.find_all(request, lock)) return block;
    if (Block* block = growth.grow(request, lock)) return block;
    if (released == 0) break;
  }
  if (stock.lanes_mix) {
    completions.await(search.points_of_runs(request), lock);  // some points only the host can await
    if (Block* block = search.find_any(request, lock)) return block;
  }
  fail(request, lock);
}

// Does not search free blocks, because `reserve` has to add memory.
Block* CachingAllocator::State::reclaim_reserve(const Request& request, Lock& lock) {
  const GivingOrder::Turn turn = giving_back.turn(lock);
  for (const std::size_t enough : {request.bytes, std::numeric_limits<std::size_t>::max()}) {
    giving_back.release_free_memory(0, enough, lock);
    if (Block* block = growth.grow_reserve(request, lock)) return block;
  }
  fail(request, lock);
}

Block* CachingAllocator::State::ask_callbacks(const Request& request, Lock& lock) {
  Block* block = nullptr;
  callbacks.ask(request.bytes, lock, [&](bool freed) {
    upkeep.empty();  // the blocks that the callback freed may be in fronts
    if (freed) block = search.find_all(request, lock);
    return block != nullptr;
  });
  return block;
}

void CachingAllocator::State::fail(const Request& request, Lock& lock) {
  ++stock.meter.counts().out_of_memory;
  MemoryPicture seen;
  {
    const FrontUpkeep::Paused paused{upkeep};
    held.shelve();
    stock.turns.add_all();
    upkeep.empty();
    free_blocks.list_all();
    seen = survey.picture(request);
  }
  lock.unlock();
  try {
    const MemoryInfo info = stock.device.device().memory_info();
    seen.device_free = info.free;
    seen.device_total = info.total;
    const std::size_t used = info.total - info.free;
    seen.held_by_others = used > seen.reserved ? used - seen.reserved : 0;
  } catch (const DeviceError&) {  // the error is thrown without the device's free memory
  }
  throw out_of_memory{std::move(seen)};
}

}  // namespace millrace
