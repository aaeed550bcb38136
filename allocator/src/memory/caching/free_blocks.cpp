#include "memory/caching/free_blocks.hpp"

#include <utility>

namespace millrace {

void FreeBlocks::put(Block* block, const Point* missing) {
  // A block that its lane would have to wait for is not merged: the merged block would have to
  // wait, too.
  if (missing == nullptr) {
    if (Block* const left = block->previous; mergeable(left, block->lane)) {
      claim(left);
      left->points.join(block->points);
      stock_.heap.absorb(left, block);
      block = left;
    }
    if (Block* const right = block->next; mergeable(right, block->lane)) {
      claim(right);
      block->points.join(right->points);
      stock_.heap.absorb(block, right);
    }
  }
  if (block->bytes == block->segment->bytes) block->segment->age = ++clock_;
  shelve(block, missing);
}

void FreeBlocks::shelve(Block* block, const Point* missing) {
  stock_.shelves.put(block, missing);
  if (!stock_.lanes_mix) return note_free(*block, block->bytes);  // merged: in no run
  if (block->waits == BlockWaits::for_all) stock_.turns.current().draining(block->bytes);
  if (block->waits != BlockWaits::unlisted) return note_free(*block, stock_.runs.freed(block));
  note_free(*block, block->bytes);
  stock_.shelves.list_surplus(
      block, [&](Block* listed) { note_free(*listed, stock_.runs.freed(listed)); });
}

void FreeBlocks::merge_until(Block* first, std::size_t bytes) {
  claim(first);
  while (first->bytes < bytes) {
    Block* next = first->next;
    claim(next);
    first->points.join(next->points);
    stock_.heap.absorb(first, next);
  }
}

void FreeBlocks::list_all() {
  stock_.shelves.list_all([&](Block* listed) { note_free(*listed, stock_.runs.freed(listed)); });
}

void FreeBlocks::settle() {
  list_all();
  const std::uint64_t now = stock_.device.ledger().epoch();
  if (std::exchange(settled_, now) != now) stock_.shelves.settle();
}

// Notes that the range may have a free page. `bytes`: of the block and its free neighbors, or more.
void FreeBlocks::note_free(const Block& block, std::size_t bytes) {
  Segment& segment = *block.segment;
  if (segment.growable() && bytes >= segment.page) segment.may_have_free_page = true;
}

// Moves the blocks of destroyed streams to the lane of no stream. All work of those streams is
// complete, so the blocks wait at most for other streams.
void FreeBlocks::merge_former_lanes() {
  while (Lane* const lane = stock_.shelves.former()) {
    for (const bool small : {false, true}) {
      for (auto* const index : {&lane->shelf(small).ready, &lane->shelf(small).draining}) {
        while (Block* const block = index->last()) {
          claim(block);
          block->lane = StreamId{};
          put(block);
        }
      }
    }
    stock_.shelves.forget(lane->stream);
  }
}

// Returns whether Policy::slack leaves the remainder with a request of `bytes`. A page that is left
// with one block cannot serve another one. So if too much is reserved, remainders with pages are
// split off while the program needs nearly as much as it ever did (Policy::lean_above). At other
// times they cost it nothing.
bool FreeBlocks::is_slack(const Segment& segment, std::size_t rest, std::size_t bytes) const {
  if (static_cast<double>(rest) >= stock_.policy.slack * static_cast<double>(bytes)) return false;
  const bool has_page = segment.growable() && rest >= segment.page;
  if (!has_page || !stock_.policy.before_growing) return true;
  return limit_.room(1) > 0 || !limit_.near_peak(bytes);
}

bool FreeBlocks::worth_splitting(const Block& like, std::size_t block_bytes,
                                 std::size_t bytes) const {
  const std::size_t rest = block_bytes - bytes;
  if (like.segment->small || stock_.policy.expandable_segments) {
    return rest >= stock_.policy.small_remainder;
  }
  const StreamId lane = like.lane;
  if (lane.valid() && is_slack(*like.segment, rest, bytes)) return false;
  return bytes < stock_.policy.max_split && rest >= stock_.policy.large_remainder;
}

}  // namespace millrace
