#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "memory/contract.hpp"
#include "memory/few.hpp"
#include "memory/relaxed.hpp"
#include "memory/stream_uses.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

struct Block;
struct Run;
struct Segment;
class WaitQueue;

enum class BlockState : std::uint8_t {
  free,     // on a shelf
  quick,    // free as well, in the quick bins of its stream's front
  pending,  // freed, kept back until a poll sees its points complete (FreeWhen::polled)
  claimed,  // being given out or given back by a call that has dropped the lock
  filling,  // addresses of a range that such a call maps memory to
  live,
  stale,   // addresses of a range whose pages lie elsewhere now; still mapped, for enqueued work
  absent,  // addresses of a range with no memory under them, between blocks that have some
};

/** @brief What a free block waits for, as far as the ledger was asked. */
enum class BlockWaits : std::uint8_t {
  unlisted,    // its own lane may have it; nobody has asked for other streams yet
  nothing,     // complete on the device: any stream may have it
  for_others,  // its own lane may have it; other streams if they are ordered after it
  for_all,     // its own lane would have to wait as well
};

/** @brief A block's place in a tree of blocks. */
struct TreeHook {
  Block* left = nullptr;
  Block* right = nullptr;
};

/** @brief Of an allocation that more than its owner uses. */
struct Company {
  StreamId user;  ///< who used it first
  StreamUses uses;
  FirstMarkers first_markers;
  Company* next_spare = nullptr;  ///< while it belongs to no allocation

  /** @brief Of an allocation that only `owner` has used so far. */
  void begin(StreamId owner, const FirstMarkers& first) noexcept {
    user = owner;
    first_markers = first;
  }
};

/** @brief What is known of a block while it is free, pending or absent. */
struct WhileFree {
  union {
    TreeHook by_size{};  ///< on its lane's shelf; among holes
    std::uint64_t turn;  ///< BlockState::pending: among frees
  };
  WaitQueue* queue;         ///< where it waits for one of its points; nullptr: in none
  TreeHook among_complete;  ///< of what any stream may have, which is in no queue
  Run* run;                 ///< of several free neighbors, that begins with it

  // In a queue, or while unlisted, in place of that tree.
  [[nodiscard]] Block*& queue_previous() noexcept { return among_complete.left; }
  [[nodiscard]] Block*& queue_next() noexcept { return among_complete.right; }
  [[nodiscard]] Block* queue_next() const noexcept { return among_complete.right; }
};

/** @brief What is known of a block while it is live. */
struct WhileLive {
  std::uint64_t id;
  std::size_t requested;
  StreamRef owner;
  Marker first_marker;  ///< the owner's next one when it was given out
  Company* company;     ///< nullptr: the owner was the first user, and is the only one
};

/**
 * @brief A piece of a segment. Neighbors in the segment are linked in address order.
 *
 * Two cache lines, which it shares with no other block: that may be another thread's. What is known
 * of it only while it is free lies where a live one has what is known of the allocation.
 */
struct alignas(64) Block {
  Block() noexcept : free{} {}

  std::byte* address = nullptr;
  std::size_t bytes = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  Relaxed<StreamId> lane;   // where it is kept: the stream that uses it first; none: nobody's. A
                            // call looks whose front to lock, when another may free the block
  std::uint32_t spare = 0;  // bytes more than the request was rounded to; kMuch: or more
  Tag tag;
  Relaxed<BlockState> state = BlockState::free;  // neighbors look, whoever has the block
  BlockWaits waits : 4 = BlockWaits::nothing;    // while free
  bool begins_run : 1 = false;                   // of free neighbors, or it is free alone

  // Free: what must come before its next use. Live: what of that only its user is ordered after.
  PointSet points;
  union {
    WhileFree free;
    WhileLive live;
    Block* next_quick;  // BlockState::quick
  };

  static constexpr auto kMuch = std::numeric_limits<std::uint32_t>::max();
  /** Whether it is some of what the allocator has: not a hole, nor what was one or will be. */
  [[nodiscard]] bool has_memory() const noexcept {
    return state != BlockState::absent && state != BlockState::stale &&
           state != BlockState::filling;
  }
  /** What the request of a live or quick block with less than `kMuch` to spare asked for. */
  [[nodiscard]] std::size_t rounded() const noexcept { return bytes - spare; }
  /** First markers of a live block. */
  [[nodiscard]] FirstMarkers first_markers() const noexcept {
    if (live.company != nullptr) return live.company->first_markers;
    const Point first{live.owner.id(), live.first_marker};
    return {first, first};
  }
};
static_assert(sizeof(Block) == 128);

/** @brief Does `work`. If it throws, the claimed blocks are live again. */
template <typename Work>
auto live_again_on_error(std::span<Block* const> blocks, Work&& work) {
  try {
    return work();
  } catch (...) {
    for (Block* const block : blocks) block->state = BlockState::live;
    throw;
  }
}

struct Segment {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  bool small = false;
  bool kept = false;          // reserved by the user: given back last
  std::size_t addresses = 0;  // a growable range: how many it has; 0: it is as large as it is
  std::size_t page = 0;       // of a growable range: bytes of each of its pages
  std::size_t number = 0;     // from 1, as they came; 0: a segment that is known by its address
  StreamId home;              // a growable range: whose requests grow it
  Block* first = nullptr;
  Block* last = nullptr;
  std::size_t free_bytes = 0;  // in free blocks
  std::uint64_t age = 0;       // when it was acquired, or last became wholly free
  Segment *free_before = nullptr, *free_behind = nullptr;  // of those that are wholly free
  bool may_have_free_page = true;  // a growable range: false if none was found, and none came since

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
