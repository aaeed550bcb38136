#include "memory/caching/growth.hpp"

#include <algorithm>
#include <bit>

#include "millrace/round_up.hpp"

namespace millrace {
namespace {

// A segment that also serves later requests has at most 1 / kSegmentsPerDevice of the device's
// memory. This limits segments on small devices.
constexpr std::size_t kSegmentsPerDevice = 32;

// A request of more than 1 / kLargePart of a segment gets a segment of full size. The rest of a
// tight segment would serve no other such request.
constexpr std::size_t kLargePart = 8;

// A segment of the small pool has at most 1 / kSmallSegments of the pool's bytes, unless the
// policy's segments are larger.
constexpr std::size_t kSmallSegments = 8;
constexpr std::size_t kMostSmallSegment = std::size_t{32} << 20;

// With ranges, a segment that several requests share has at most 1 / kSharedSegmentsPerDevice of
// the device's memory, and serves requests of at most half its size.
constexpr std::size_t kSharedSegmentsPerDevice = 512;

// A program counts as starting while at most 1 / kAllocationsPerFree of its allocations were freed.
constexpr std::uint64_t kAllocationsPerFree = 32;

}  // namespace

Block* Growth::grow(const Request& request, Lock& lock) {
  if (const std::size_t shared = shared_segment(request); shared != 0) {
    if (Block* block = acquire(shared, request, lock)) return block;
  }
  if (ranges_.serve(request)) {
    Block* block = ranges_.grow(request, lock);
    if (block != nullptr || !stock_.heap.ranges().empty()) return block;
  }
  if (expandable_.serves()) {
    Block* const block = expandable_.grow(request, lock);
    if (block != nullptr || !expandable_.lacks_addresses()) return block;
  }
  const std::size_t multiple =
      std::max(stock_.policy.segment_multiple, stock_.source.granularity());
  const std::size_t needed =
      request.small ? stock_.policy.small_segment : round_up(request.bytes, multiple);
  std::size_t liked =
      stock_.policy.segment_for(request.bytes, stock_.meter.bytes().reserved.current);
  if (stock_.policy.large_segment_most != 0) {
    liked = request.small ? small_segment() : roomy_segment(needed, multiple);
    if (!request.small) {
      limit_.count_growth();
      giving_back_.give_back_too_small(request, liked, lock);
    }
  }
  if (Block* block = acquire(liked, request, lock)) return block;
  return stock_.lanes_mix && needed < liked ? acquire(needed, request, lock) : nullptr;
}

// Segments grow with the pool. So many small requests need few segments, and the unused rest of the
// newest segment stays small.
std::size_t Growth::small_segment() const {
  const std::size_t share = std::bit_floor(stock_.heap.small_bytes() / kSmallSegments);
  return std::max(stock_.policy.small_segment, std::min(share, kMostSmallSegment));
}

// Allocating a segment takes the device about as long as mapping one page. If pages are small,
// requests that are not large therefore share segments while a program starts, which saves many
// calls. Once the program frees blocks, growth is rare, and its memory should be in a range, where
// pages can be moved. Returns 0 if the request grows in a range.
std::size_t Growth::shared_segment(const Request& request) {
  if (!ranges_.serve(request) || !stock_.saves_segments) return 0;
  std::size_t bytes = stock_.policy.medium_segment;
  if (stock_.capacity > 0) bytes = std::min(bytes, stock_.capacity / kSharedSegmentsPerDevice);
  bytes = bytes / stock_.policy.segment_multiple * stock_.policy.segment_multiple;
  if (bytes <= stock_.source.page_bytes() || request.bytes > bytes / 2) return 0;
  const MemoryCounters& counts = stock_.turns.current().counts();
  return counts.frees <= counts.allocations / kAllocationsPerFree ? bytes : 0;
}

// Returns the size of a segment that also serves later requests. It is smaller by the free memory
// that any stream may use already, in pieces that are too small for the request. So the reserved
// bytes stay close to the needed bytes.
std::size_t Growth::roomy_segment(std::size_t needed, std::size_t multiple) const {
  std::size_t most = stock_.policy.segment_for(needed, stock_.meter.bytes().reserved.current);
  if (stock_.capacity > 0) {
    most = std::min(most, stock_.capacity / kSegmentsPerDevice / multiple * multiple);
  }
  if (!stock_.saves_segments || needed > most / kLargePart) return std::max(needed, most);
  const std::size_t free =
      stock_.shelves.complete(false).bytes() + stock_.shelves.nobodys().shelves[0].bytes();
  return std::max(needed, round_up(most - std::min(most, free), multiple));
}

Block* Growth::acquire(std::size_t bytes, const Request& request, Lock& lock) {
  void* base = nullptr;
  if (!allowance_.obtain(bytes, lock, [&] { base = stock_.source.acquire(bytes); })) return nullptr;
  Block* block = nullptr;
  try {
    block = stock_.heap.add_segment(base, bytes, request.small);
  } catch (...) {  // no host memory for its block
    const Unlocked unlocked{lock};
    stock_.source.release(base, bytes);
    throw;
  }
  stock_.turns.current().reserved(bytes);
  if (!stock_.lanes_mix) block->lane = request.lane;
  reports_.acquired(base, bytes);
  ++stock_.meter.counts().served_grown;
  return block;
}

Block* Growth::grow_reserve(const Request& request, Lock& lock) {
  if (ranges_.serve(request)) {
    Block* const block = ranges_.grow(request, lock);
    if (block != nullptr || !stock_.heap.ranges().empty()) return block;
  }
  if (request.small) return acquire(stock_.policy.small_segment, request, lock);
  const std::size_t multiple =
      std::max(stock_.policy.segment_multiple, stock_.source.granularity());
  return acquire(round_up(request.bytes, multiple), request, lock);
}

}  // namespace millrace
