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
struct Segment;
class WaitQueue;

enum class BlockState : std::uint8_t {
  free,     // on a shelf
  quick,    // freed, but kept for its own stream: in that stream's front, or in HeldFrees
  pending,  // freed, but not usable until a poll finds its points complete (FreeWhen::polled)
  claimed,  // on no list, so only the call that claimed it uses it; that call may drop the lock
  filling,  // addresses of a growable range to which a call is mapping memory
  live,
  stale,   // addresses of a range whose pages were moved; still mapped, for work enqueued before
  absent,  // a hole: addresses of a range without memory, before a block that has some
};

/** @brief What a free block waits for, as of the last check against the ledger. */
enum class BlockWaits : std::uint8_t {
  unlisted,    // ready for its own lane; not checked for other streams yet
  nothing,     // complete on the device: ready for any stream
  for_others,  // ready for its own lane, and for streams that are ordered after its points
  for_all,     // draining: its own lane would have to wait, too
};

/** @brief The links of a block in a tree of blocks. */
struct TreeHook {
  Block* left = nullptr;
  Block* right = nullptr;
};

/** @brief The additional record of an allocation that other streams than its owner use. */
struct UseRecord {
  StreamId user;    ///< the first user
  StreamUses uses;  ///< streams with recorded uses
  FirstMarkers first_markers;
  UseRecord* next_spare = nullptr;  ///< link of a record that belongs to no allocation

  /** @brief Starts the record of an allocation that only `owner` has used so far. */
  void begin(StreamId owner, const FirstMarkers& first) noexcept {
    user = owner;
    first_markers = first;
  }
};

/** @brief Fields of a block that is free, pending or absent. */
struct WhileFree {
  union {
    TreeHook by_size{};  ///< in the index of its lane's shelf, or of the holes
    std::uint64_t turn;  ///< BlockState::pending: position in the order of frees
  };
  WaitQueue* queue;         ///< the queue in which it waits for one of its points, or nullptr
  TreeHook among_complete;  ///< in the index of blocks that any stream may have

  // Links of a list. A complete block is in no queue and not unlisted, so `among_complete` is free
  // for the links of a queue or of the unlisted blocks.
  [[nodiscard]] Block*& queue_previous() noexcept { return among_complete.left; }
  [[nodiscard]] Block*& queue_next() noexcept { return among_complete.right; }
  [[nodiscard]] Block* queue_next() const noexcept { return among_complete.right; }
};

/** @brief Either the owner's next marker at the time of the allocation, while the owner is the only
 * user, or the record of the uses. */
class LiveUses {
 public:
  explicit LiveUses(Marker first) noexcept : value_(first << 1) {}
  explicit LiveUses(UseRecord& record) noexcept
      : value_(reinterpret_cast<std::uintptr_t>(&record) | 1) {}

  [[nodiscard]] bool by_owner_only() const noexcept { return (value_ & 1) == 0; }
  [[nodiscard]] Marker first_marker() const noexcept { return value_ >> 1; }
  /** @brief Returns the record; nullptr while the owner is the first and only user. */
  [[nodiscard]] UseRecord* record() const noexcept {
    return by_owner_only() ? nullptr : reinterpret_cast<UseRecord*>(value_ - 1);
  }

 private:
  std::uint64_t value_;
};

/** @brief Fields of a live block. */
struct WhileLive {
  std::size_t requested;
  StreamRef owner;
  LiveUses uses;
  std::uint64_t id;
};

/**
 * @brief A piece of a segment. The blocks of a segment are linked in address order.
 *
 * The fields of a free block and those of a live block share their space. The fields that a call
 * reads of the neighbors of a block are in the first 64 bytes.
 */
struct Block {
  Block() noexcept : free{} {}

  std::byte* address = nullptr;
  std::size_t bytes = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  // The stream that the block is kept for: its first user (Sharing::own_stream: its owner), or no
  // stream. A call reads it without a lock to find the front whose lock guards the block, while
  // another thread may free that block.
  Relaxed<StreamId> lane;
  union {
    // Of a live block, and until the block is on a shelf: size minus rounded request, at most
    // kMuch.
    std::uint32_t spare = 0;
    std::uint32_t run;  // of a block on a shelf: the run that begins with it, from 1; 0: none
  };
  Tag tag;
  Relaxed<BlockState> state = BlockState::free;  // read by neighbors without the owner's lock
  BlockWaits waits : 4 = BlockWaits::nothing;    // of a free block
  bool begins_run : 1 = false;  // first block of a run, or a listed free block that is in no run

  // Of a free block: the points that must come before its next use. Of a live block: the points of
  // its earlier uses; only its first user is known to be ordered after them.
  PointSet points;
  union {
    WhileFree free;
    WhileLive live;
    Block* next_quick;  // BlockState::quick
  };

  static constexpr auto kMuch = std::numeric_limits<std::uint32_t>::max();
  /** Returns whether the allocator's reserved bytes include the block: false for a hole, and for
   * addresses that are being mapped or whose pages were moved. */
  [[nodiscard]] bool has_memory() const noexcept {
    return state != BlockState::absent && state != BlockState::stale &&
           state != BlockState::filling;
  }
  /** Returns the rounded size of the request of a live or quick block. `spare` is below `kMuch`. */
  [[nodiscard]] std::size_t rounded() const noexcept { return bytes - spare; }
  /** Returns the first markers of a live block. */
  [[nodiscard]] FirstMarkers first_markers() const noexcept {
    if (!live.uses.by_owner_only()) return live.uses.record()->first_markers;
    const Point first{live.owner.id(), live.uses.first_marker()};
    return {first, first};
  }
};
static_assert(sizeof(Block) == 112);

/** @brief Calls `work`. If it throws, makes the claimed blocks live again and rethrows. */
template <typename Work>
auto live_again_on_error(std::span<Block* const> blocks, Work&& work) {
  try {
    return work();
  } catch (...) {
    for (Block* const block : blocks) block->state = BlockState::live;
    throw;
  }
}

/** @brief Memory from the device, as one allocation or as a growable range, and its blocks. */
struct Segment {
  std::byte* base = nullptr;
  std::size_t bytes = 0;      // of a range: up to the end of its last block, with holes
  bool small = false;         // belongs to the pool of small requests
  bool kept = false;          // the user reserved it: it is given back last
  std::size_t addresses = 0;  // of a range: bytes of addresses; 0: not a growable range
  std::size_t page = 0;       // of a range: bytes of one page
  std::size_t number = 0;     // from 1, in order of acquisition; 0: ordered by address
  StreamId home;              // of a range: the stream whose requests grow it
  Block* first = nullptr;
  Block* last = nullptr;
  std::size_t free_bytes = 0;  // in free blocks
  std::uint64_t age = 0;       // clock value when one free block last filled it; 0: never
  Segment *free_before = nullptr, *free_behind = nullptr;  // in the list of wholly free segments
  // Of a range: false if a search found no free page, and no free block of a page came since.
  bool may_have_free_page = true;

  [[nodiscard]] bool growable() const noexcept { return addresses != 0; }
  [[nodiscard]] bool wholly_free() const noexcept { return !growable() && free_bytes == bytes; }
};

/**
 * @brief Returns a key that sorts blocks by segment number, then by address.
 *
 * Numbered segments have the same order in each run of a program, at whatever addresses they are.
 */
[[nodiscard]] inline std::pair<std::size_t, std::byte*> place_of(const Block* block) noexcept {
  return {block->segment->number, block->address};
}

/** @brief Orders blocks by size, then by place: the order of PyTorch's best fit. */
[[nodiscard]] inline bool fits_before(const Block* a, const Block* b) noexcept {
  return a->bytes != b->bytes ? a->bytes < b->bytes : place_of(a) < place_of(b);
}

}  // namespace millrace
