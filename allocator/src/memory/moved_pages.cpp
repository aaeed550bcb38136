#include <algorithm>
#include <limits>
#include <vector>

#include "memory/caching_state.hpp"

namespace millrace {
namespace {

// Blocks, or runs of them, of which pages are not to be had that a search passes over.
constexpr std::size_t kMostLooks = 64;

constexpr auto kAll = std::numeric_limits<std::size_t>::max();

}  // namespace

/*
 * Complete pages that a request takes from where they lie. Another stream's are taken only as far
 * as it had more than it needed lately: it would soon take them back.
 */
class CachingAllocator::State::Movable {
 public:
  Movable(State& state, const Request& request, const Gap& gap)
      : state_(state), request_(request), page_(state.source.page_bytes()) {
    if (gap.first == nullptr) return;
    const Segment& range = *gap.range;
    kept_ = gap.first->address;
    end_kept_ = gap.hole == nullptr ? range.base + range.bytes : gap.hole->address;
  }

  struct Blocks {
    Block* first = nullptr;
    Block* last = nullptr;
  };

  // The smallest block that has a page; else free neighbours that have one together.
  Blocks find() {
    for (const std::size_t least : {page_, 2 * page_}) {
      if (Block* const block = find_block(least)) return {block, block};
    }
    Blocks found;
    std::size_t looks = 0;
    state_.runs.visit(false, page_, [&](const Run& run) {
      found = find_in(run);
      if (found.first == found.last) {  // what of one block is taken is known later
        Blocks one = found;
        put_back(one);
      }
      return found.first == nullptr && ++looks < kMostLooks;
    });
    return found;
  }

  [[nodiscard]] std::size_t spare(const Block& block) {
    std::size_t* const left = spare_of(block.lane);
    return left == nullptr ? kAll : *left;
  }
  void took(StreamId lane, std::size_t bytes) {
    std::size_t* const left = spare_of(lane);
    if (left != nullptr) *left -= std::min(*left, bytes);
  }

 private:
  struct Spare {
    StreamId lane;
    std::size_t bytes = 0;
  };

  [[nodiscard]] bool is_kept(const Block& block) const {
    return block.address >= kept_ && block.address < end_kept_;
  }
  // What the user reserved stays where it is.
  [[nodiscard]] static bool has_movable_pages(const Segment& segment) {
    return segment.growable() && !segment.kept;
  }
  [[nodiscard]] bool has_page(const Block& first, const Block& last) const {
    return state_.has_page(*first.segment, first.address, last.address + last.bytes);
  }

  Block* find_block(std::size_t least) {
    const auto& complete = state_.shelves.complete(false);
    Block* block = complete.first(least);
    for (std::size_t looks = 0; block != nullptr && looks < kMostLooks; ++looks) {
      const bool there = has_movable_pages(*block->segment) && !is_kept(*block);
      if (there && has_page(*block, *block) && spare(*block) >= page_) return block;
      block = complete.after(block);
    }
    return nullptr;
  }

  // What is found is taken from its lanes' spare bytes: together they may be too much where each
  // is not.
  Blocks find_in(const Run& run) {
    if (!has_movable_pages(*run.first->segment)) return {};
    Blocks found;
    Block* block = run.first;
    for (std::size_t i = 0; i < run.count; ++i, block = block->next) {
      const bool complete = block->waits == Waits::nothing && !is_kept(*block);
      if (complete && spare(*block) >= block->bytes) {
        if (found.first == nullptr) found.first = block;
        found.last = block;
        took(block->lane, block->bytes);
        continue;
      }
      if (found.first != nullptr && has_page(*found.first, *found.last)) return found;
      put_back(found);
    }
    if (found.first != nullptr && has_page(*found.first, *found.last)) return found;
    put_back(found);
    return {};
  }
  // As if they had not been found.
  void put_back(Blocks& found) {
    for (const Block* block = found.first; block != nullptr; block = block->next) {
      if (std::size_t* const left = spare_of(block->lane)) *left += block->bytes;
      if (block == found.last) break;
    }
    found = {};
  }

  // nullptr: all that the lane has.
  std::size_t* spare_of(StreamId lane) {
    if (!state_.kept_for_other(lane, request_)) return nullptr;
    const auto known = std::ranges::find(spare_, lane, &Spare::lane);
    if (known != spare_.end()) return &known->bytes;
    return &spare_.emplace_back(Spare{lane, state_.unneeded(lane)}).bytes;
  }

  State& state_;
  const Request& request_;
  const std::size_t page_;
  const std::byte *kept_ = nullptr, *end_kept_ = nullptr;  // in front of the gap
  std::vector<Spare> spare_;
};

// What a lane has beyond what its stream needed lately. One that was never marked says nothing of
// what it needs at once.
std::size_t CachingAllocator::State::unneeded(StreamId lane) {
  const Demand demand = demand_of(lane);
  if (demand.previous_began == 0) return kAll;
  const Lane* const kept = shelves.find(lane);
  const std::size_t has = demand.live.current + (kept == nullptr ? 0 : kept->shelves[0].bytes());
  return has - std::min(has, *std::ranges::max_element(demand.peaks));
}

// Unmaps whole pages of complete blocks, up to `gap` and no more, so that mapping them there is not
// growing. Nothing waits: not the host either. Returns whether it unmapped any, or tried to.
bool CachingAllocator::State::gather_pages(const Request& request, const Gap& gap, Lock& lock) {
  const std::size_t page = source.page_bytes();
  if (!policy.before_growing || gap.bytes < page) return false;
  if (!move_patience.lasts(meter.bytes().reserved.current)) return false;
  settle();
  Movable movable{*this, request, gap};
  for (std::size_t missing = gap.bytes; missing >= page;) {
    const Movable::Blocks found = movable.find();
    if (found.first == nullptr) return missing < gap.bytes;
    const std::size_t bytes = unmap_blocks(movable, found.first, found.last, missing, lock);
    if (bytes == 0) return true;
    missing -= std::min(missing, bytes);
    move_patience.moved(bytes);
    meter.counts().bytes_moved += bytes;
  }
  return true;
}

// Unmaps at most `most` bytes of the free blocks up to `last`; 0 if the driver refused.
std::size_t CachingAllocator::State::unmap_blocks(Movable& movable, Block* first, Block* last,
                                                  std::size_t most, Lock& lock) {
  const bool one = first == last;
  const StreamId lane = first->lane;
  if (one) most = std::min(most, movable.spare(*first));
  claim(first);
  for (bool whole = one; !whole;) {
    Block* const next = first->next;
    whole = next == last;
    claim(next);
    first->points.join(next->points);
    heap.absorb(first, next);
  }
  Block* const pages = keep_pages(first, most);
  if (pages == nullptr) return 0;
  const std::size_t bytes = pages->bytes;
  if (one) movable.took(lane, bytes);
  try {
    unmap(pages, lock);
  } catch (const DeviceError&) {  // the pages are free still
    return 0;
  }
  heap.vacate(pages);
  return bytes;
}

}  // namespace millrace
