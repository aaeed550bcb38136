#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "memory/contract.hpp"
#include "millrace/memory/allocator.hpp"

namespace millrace {

struct Segment;

enum class BlockState : std::uint8_t {
  free,     // in its lane's index
  pending,  // freed, kept back until a poll sees its points complete (Return::polled)
  claimed,  // being given out or given back by a call that has dropped the lock
  live,
  absent,  // addresses of a range with no memory under them, between blocks that have some
};

/** @brief A piece of a segment. Neighbours in the segment are linked in address order. */
struct Block {
  std::byte* address = nullptr;
  std::size_t bytes = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  BlockState state = BlockState::free;

  StreamId lane;              // where it is kept: the stream that uses it first
  std::vector<Point> points;  // free: what must come before its next use
  bool draining = false;      // free, and counted as active: its lane would have to wait

  // While live.
  std::uint64_t id = 0;
  std::size_t requested = 0;
  StreamRef owner{StreamHandle{}};
  StreamId user;  // who used it first
  std::vector<StreamRef> uses;
  std::vector<Point> inherited;  // earlier tenants' points that only the user is ordered after
  FirstMarkers first_markers;
  Tag tag;
};

struct Segment {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  bool small = false;
  std::size_t addresses = 0;  // a growable range: how many it has; 0: it is as large as it is
  std::size_t number = 0;     // a growable range: which it is, from 1
  StreamId home;              // a growable range: whose requests grow it
  Block* first = nullptr;
  Block* last = nullptr;
  std::uint64_t age = 0;  // when it was acquired, or last became wholly free

  [[nodiscard]] bool growable() const noexcept { return addresses != 0; }
};

/** @brief An order that is the same in each run, wherever the addresses of ranges are. */
[[nodiscard]] inline std::pair<std::size_t, std::byte*> place_of(const Block* block) noexcept {
  return {block->segment->number, block->address};
}

struct BySizeThenPlace {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const noexcept {
    return a->bytes != b->bytes ? a->bytes < b->bytes : place_of(a) < place_of(b);
  }
  bool operator()(const Block* a, std::size_t bytes) const noexcept { return a->bytes < bytes; }
  bool operator()(std::size_t bytes, const Block* b) const noexcept { return bytes < b->bytes; }
};

/** @brief The free blocks of one lane, smallest first, then lowest address (PyTorch's order). */
using FreeSet = std::set<Block*, BySizeThenPlace>;

}  // namespace millrace
