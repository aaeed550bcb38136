#pragma once

#include "memory/caching/before_growth.hpp"
#include "memory/caching/joined_lanes.hpp"
#include "memory/caching/merging.hpp"
#include "memory/caching/own_lane.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/waiting.hpp"
#include "test/memory/parts/fronts_rig.hpp"

namespace millrace::test {

/// A FrontsRig with the parts that find a free block for a request.
struct SearchRig : FrontsRig {
  using FrontsRig::FrontsRig;
  OwnLane own_lane{stock, free_blocks, held};
  Reuse reuse{stock, free_blocks, upkeep, own_lane};
  Waiting waiting{stock, free_blocks, upkeep, reuse};
  Merging merging{stock, free_blocks, reuse, waiting};

  /// Returns a free segment that `stream` used last.
  Block* free_segment(std::size_t bytes, const Stream& stream) {
    Block* const block = segment(bytes, stream);
    put(block, stream);
    return block;
  }
};

}  // namespace millrace::test
