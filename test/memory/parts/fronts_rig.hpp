#pragma once

#include "memory/caching/allocations.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/quick_path.hpp"
#include "memory/caching/quick_uses.hpp"
#include "test/memory/parts/graph_memory.hpp"
#include "test/memory/parts/parts_rig.hpp"

namespace millrace::test {

/// A PartsRig with the parts that serve the usual request.
struct FrontsRig : PartsRig {
  using PartsRig::PartsRig;

  CountedMemory no_memory{0};
  GraphPools graphs{no_memory, ordered, stock.policy};
  FrontUpkeep upkeep{stock, reports, free_blocks};
  QuickUses quick_uses{stock, graphs};
  QuickPath quick{stock, reports, upkeep, quick_uses};
  HeldFrees held{stock, reports, free_blocks, upkeep};
  Allocations allocations{stock, graphs, upkeep};

  [[nodiscard]] Request request(std::size_t bytes, const Stream& stream) const {
    const Marker next = ordered.ledger().next(stream.id());
    return {{bytes, bytes, stream, {}, next}, false, stream, stream.id(), next};
  }
  /// Returns a live block of `bytes` bytes that `stream` owns, from the rest of a segment or from a
  /// new segment.
  Block* live(std::size_t bytes, const Stream& stream) {
    const bool small = bytes <= stock.policy.small_limit;
    Block*& rest = small ? rest_of_small : rest_of_large;
    if (rest == nullptr || rest->bytes <= bytes) rest = segment(64 * MiB, stream, small);
    Block* const block = rest;
    rest = stock.heap.split(block, bytes);
    rest->lane = block->lane = stream.id();
    return give(block, stream);
  }
  /// Makes a claimed block live.
  Block* give(Block* block, const Stream& stream) {
    const Request asked = request(block->bytes, stream);
    stock.heap.live().insert(block);
    block->state = BlockState::live;
    block->spare = 0;
    block->tag = {};
    block->live = {block->bytes, stream, LiveUses{asked.next}, stock.new_id()};
    upkeep.count_out(*block, asked);
    return block;
  }
  Block *rest_of_small = nullptr, *rest_of_large = nullptr;  // claimed; in the newest segments
};

}  // namespace millrace::test
