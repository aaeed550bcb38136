#include <algorithm>
#include <bit>
#include <limits>
#include <thread>
#include <vector>

#include "memory/caching_state.hpp"
#include "millrace/round_up.hpp"
#include "ordering/steps.hpp"

namespace millrace {
namespace {

// A segment takes at most this part of a small device.
constexpr std::size_t kSegmentsPerDevice = 32;

// A request that is a larger part of a segment gets a whole one: what such requests leave in tight
// segments serves none of them.
constexpr std::size_t kLargePart = 8;

// A segment of the small pool is at most one part in so many of the pool.
constexpr std::size_t kSmallSegments = 8;
constexpr std::size_t kMostSmallSegment = std::size_t{32} << 20;

// A segment that several requests share, beside a range, is at most one part in so many of the
// device, and serves requests of at most half of it.
constexpr std::size_t kSharedSegmentsPerDevice = 512;

// A program starts as long as it frees at most one allocation in so many.
constexpr std::uint64_t kAllocationsPerFree = 32;

}  // namespace

// What is missing, in a range; else a new segment of the size that the policy likes, or else of the
// size that is needed.
Block* CachingAllocator::State::grow(const Request& request, Lock& lock) {
  if (const std::size_t shared = shared_segment(request); shared != 0) {
    if (Block* block = acquire(shared, request, lock)) return block;
  }
  if (uses_ranges(request)) {
    Block* block = grow_range(request, lock);
    if (block != nullptr || !stock.heap.ranges().empty()) return block;
  }
  const std::size_t multiple = std::max(stock.policy.segment_multiple, stock.source.granularity());
  const std::size_t needed =
      request.small ? stock.policy.small_segment : round_up(request.bytes, multiple);
  std::size_t liked = stock.policy.segment_for(request.bytes, stock.meter.bytes().reserved.current);
  if (stock.policy.large_segment_most != 0) {
    liked = request.small ? small_segment() : roomy_segment(needed, multiple);
    if (!request.small) give_back_too_small(request, liked, lock);
  }
  if (Block* block = acquire(liked, request, lock)) return block;
  return stock.lanes_mix && needed < liked ? acquire(needed, request, lock) : nullptr;
}

// The first of many small requests need few segments, and what the last one has left is little.
std::size_t CachingAllocator::State::small_segment() const {
  const std::size_t share = std::bit_floor(stock.heap.small_bytes() / kSmallSegments);
  return std::max(stock.policy.small_segment, std::min(share, kMostSmallSegment));
}

// Allocating a segment takes the device about as long as mapping one page. So where pages are
// small, requests that are not large share segments while a program starts: such growth is many
// calls less. Once blocks come back, growth is rare, and what it leaves has to be movable. 0: in a
// range.
std::size_t CachingAllocator::State::shared_segment(const Request& request) {
  if (!uses_ranges(request) || !stock.saves_segments) return 0;
  std::size_t bytes = stock.policy.medium_segment;
  if (stock.capacity > 0) bytes = std::min(bytes, stock.capacity / kSharedSegmentsPerDevice);
  bytes = bytes / stock.policy.segment_multiple * stock.policy.segment_multiple;
  if (bytes <= stock.source.page_bytes() || request.bytes > bytes / 2) return 0;
  const MemoryCounters& counts = stock.turns.current().counts();
  return counts.frees <= counts.allocations / kAllocationsPerFree ? bytes : 0;
}

// A segment that serves later requests as well. It is smaller by what any stream may have already,
// in pieces that are too small: so what is reserved comes near to what is needed.
std::size_t CachingAllocator::State::roomy_segment(std::size_t needed, std::size_t multiple) const {
  std::size_t most = stock.policy.segment_for(needed, stock.meter.bytes().reserved.current);
  if (stock.capacity > 0) {
    most = std::min(most, stock.capacity / kSegmentsPerDevice / multiple * multiple);
  }
  if (!stock.saves_segments || needed > most / kLargePart) return std::max(needed, most);
  const std::size_t free =
      stock.shelves.complete(false).bytes() + stock.shelves.nobodys().shelves[0].bytes();
  return std::max(needed, round_up(most - std::min(most, free), multiple));
}

// Whether `ask` got `bytes` more from the device; the limit or the device may say no.
bool CachingAllocator::State::obtain(std::size_t bytes, Lock& lock,
                                     const std::function<void()>& ask) {
  // Threads that grow at once stay within the limit together.
  const std::size_t reserved = stock.meter.bytes().reserved.current + growing.bytes();
  if (limits.limit != 0 && reserved + bytes > limits.limit) return false;
  const Growths::Growth growth = growing.begin(bytes);
  bool obtained = false;
  try {
    obtained = leaves_headroom(growth, lock);
    if (obtained) {
      const Unlocked unlocked{lock};
      ask();
    }
  } catch (const DeviceError& error) {
    growing.end(growth);
    if (error.code() != ErrorCode::out_of_memory) throw;
    return false;
  } catch (...) {
    growing.end(growth);
    throw;
  }
  growing.end(growth);
  return obtained;
}

// Two that saw the same memory free would take it together: the later one counts the earlier. What
// that one has taken by then counts twice, so that no is the answer only once it has ended.
bool CachingAllocator::State::leaves_headroom(Growths::Growth growth, Lock& lock) {
  while (limits.headroom != 0) {
    const std::size_t wanted = growing.bytes_up_to(growth);
    std::size_t free = 0;
    {
      const Unlocked unlocked{lock};
      free = stock.device.device().memory_info().free;
    }
    const std::size_t headroom = limits.headroom;
    if (free >= headroom && free - headroom >= wanted) return true;
    if (wanted == *growth) return false;
    const Unlocked unlocked{lock};
    std::this_thread::yield();
  }
  return true;
}

Block* CachingAllocator::State::acquire(std::size_t bytes, const Request& request, Lock& lock) {
  void* base = nullptr;
  if (!obtain(bytes, lock, [&] { base = stock.source.acquire(bytes); })) return nullptr;
  stock.turns.current().reserved(bytes);
  Block* block = stock.heap.add_segment(base, bytes, request.small);
  if (!stock.lanes_mix) block->lane = request.lane;
  reports.acquired(base, bytes);
  ++stock.meter.counts().served_grown;
  return block;
}

Block* CachingAllocator::State::ask_callbacks(const Request& request, Lock& lock) {
  const std::vector<Callback> asked = callbacks;
  for (const auto& [turn, callback] : asked) {
    lock.unlock();
    bool freed = false;
    try {
      freed = callback(request.bytes);
    } catch (...) {
      lock.lock();
      throw;
    }
    lock.lock();
    upkeep.empty();  // what it freed may be in a front
    if (!freed) continue;
    if (Block* block = search.find_all(request, lock)) return block;
  }
  return nullptr;
}

// The device, or the limit, said no.
Block* CachingAllocator::State::reclaim(const Request& request, Lock& lock) {
  ++stock.meter.counts().retries;
  if (stock.lanes_mix) {
    if (Block* block = search.find_any(request, lock)) return block;
    if (Block* block = ask_callbacks(request, lock)) return block;
  }
  for (const std::size_t enough : {request.bytes, std::numeric_limits<std::size_t>::max()}) {
    const std::size_t released = release_free_memory(0, enough, lock);
    if (Block* block = search.find_all(request, lock)) return block;
    if (Block* block = grow(request, lock)) return block;
    if (released == 0) break;
  }
  if (stock.lanes_mix) {
    completions.await(search.points_of_runs(request), lock);  // what only the host can wait for
    if (Block* block = search.find_any(request, lock)) return block;
  }
  fail(request, lock);
}

void CachingAllocator::State::fail(const Request& request, Lock& lock) {
  ++stock.meter.counts().out_of_memory;
  MemoryPicture seen;
  {
    const FrontUpkeep::Paused paused{upkeep};
    held.let_go();
    stock.turns.add_all();
    upkeep.empty();
    free_blocks.list_all();
    seen = picture(request);
  }
  lock.unlock();
  try {
    const MemoryInfo info = stock.device.device().memory_info();
    seen.device_free = info.free;
    seen.device_total = info.total;
    const std::size_t used = info.total - info.free;
    seen.held_by_others = used > seen.reserved ? used - seen.reserved : 0;
  } catch (const DeviceError&) {  // the picture does without it
  }
  throw out_of_memory{std::move(seen)};
}

}  // namespace millrace
