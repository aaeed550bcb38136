#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "memory/contract.hpp"
#include "memory/few.hpp"
#include "memory/relaxed.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

struct Block;
struct Run;
struct Segment;
class WaitQueue;

enum class BlockState : std::uint8_t {
  free,     // on a shelf
  quick,    // free as well, in the quick bins of its stream's front
  pending,  // freed, kept back until a poll sees its points complete (Return::polled)
  claimed,  // being given out or given back by a call that has dropped the lock
  live,
  absent,  // addresses of a range with no memory under them, between blocks that have some
};

/** @brief What a free block waits for, as far as the ledger was asked. */
enum class Waits : std::uint8_t {
  nothing,     // complete on the device: any stream may have it
  for_others,  // its own lane may have it; other streams if they are ordered after it
  for_all,     // its own lane would have to wait as well
};

/** @brief A block's place in a tree of blocks. */
struct TreeHook {
  Block* left = nullptr;
  Block* right = nullptr;
};

/**
 * @brief A piece of a segment. Neighbours in the segment are linked in address order.
 *
 * It shares no cache line with another, which may be another thread's.
 */
struct alignas(64) Block {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  StreamId lane;  // where it is kept: the stream that uses it first; none: nobody's
  Relaxed<BlockState> state = BlockState::free;  // neighbours look, whoever has the block

  // While free.
  Waits waits = Waits::nothing;
  PointSet points;             // what must come before its next use
  TreeHook by_size;            // on its lane's shelf
  TreeHook among_complete;     // among what any stream may have
  WaitQueue* queue = nullptr;  // where it waits for one of its points
  Marker marker = 0;           // of that point
  Block *queue_previous = nullptr, *queue_next = nullptr;
  std::uint64_t turn = 0;   // pending: among frees
  bool begins_run = false;  // of free neighbours, or it is free alone
  Run* run = nullptr;       // of several blocks, that begins with it

  // While live.
  std::uint64_t id = 0;
  std::size_t requested = 0;
  std::size_t rounded = 0;  // of the request
  StreamRef owner{StreamHandle{}};
  StreamId user;  // who used it first
  Few<StreamRef> uses;
  PointSet inherited;  // earlier tenants' points that only the user is ordered after
  FirstMarkers first_markers;
  Tag tag;
};

struct Segment {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  bool small = false;
  bool kept = false;          // reserved by the user: given back last
  std::size_t addresses = 0;  // a growable range: how many it has; 0: it is as large as it is
  std::size_t number = 0;     // a growable range: which it is, from 1
  StreamId home;              // a growable range: whose requests grow it
  Block* first = nullptr;
  Block* last = nullptr;
  std::size_t free_bytes = 0;  // in free blocks
  std::uint64_t age = 0;       // when it was acquired, or last became wholly free

  [[nodiscard]] bool growable() const noexcept { return addresses != 0; }
  [[nodiscard]] bool wholly_free() const noexcept { return !growable() && free_bytes == bytes; }
};

/** @brief An order that is the same in each run, wherever the addresses of ranges are. */
[[nodiscard]] inline std::pair<std::size_t, std::byte*> place_of(const Block* block) noexcept {
  return {block->segment->number, block->address};
}

/** @brief Smallest first, then lowest address: PyTorch's order. */
[[nodiscard]] inline bool fits_before(const Block* a, const Block* b) noexcept {
  return a->bytes != b->bytes ? a->bytes < b->bytes : place_of(a) < place_of(b);
}

}  // namespace millrace
