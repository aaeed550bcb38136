#include "memory/caching/moved_pages.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <vector>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Maximum number of blocks, or runs, without pages to take that a search skips.
constexpr std::size_t kMostLooks = 64;

// Pages of other streams are not spared once the reserved bytes exceed the highest requested bytes
// by this many times `Policy::lean_above`. It is above 1: if growth ended where streams begin to
// take each other's pages, a loop in which two streams need them in turn would move them in each
// step.
constexpr double kTakesAll = 1.5;

constexpr auto kAll = std::numeric_limits<std::size_t>::max();

}  // namespace

/*
 * Finds pages that a request can take from other addresses: complete pages, and pages whose uses
 * the request's stream is ordered after. Another stream keeps what it needed in its last bursts,
 * because it would soon take that back, unless too much is reserved (Policy::lean_above).
 */
class MovedPages::Movable {
 public:
  Movable(MovedPages& moved, const Request& request)
      : moved_(moved), request_(request), page_(moved.stock_.source.page_bytes()) {}

  struct Blocks {
    Block* first = nullptr;
    Block* last = nullptr;
  };

  // Returns the smallest block that contains a whole page; otherwise free neighbors that contain
  // one together. A block of two pages always contains one, a smaller block may not.
  Blocks find() {
    for (const std::size_t least : {page_, 2 * page_}) {
      if (Block* const block = find_block(least)) return {block, block};
    }
    Blocks found;
    std::size_t looks = 0;
    moved_.stock_.runs.visit(false, page_, [&](const Run& run) {
      found = find_in(run);
      if (found.first == found.last) {  // `claim_pages` subtracts the bytes of a single block
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

  // Memory that the user reserved stays where it is.
  [[nodiscard]] static bool has_movable_pages(const Segment& segment) {
    return segment.growable() && !segment.kept;
  }
  [[nodiscard]] bool has_page(const Block& first, const Block& last) const {
    return moved_.range_pages_.has_page(*first.segment, first.address, last.address + last.bytes);
  }

  Block* find_block(std::size_t least) {
    if (Block* const block = first_with_page(moved_.stock_.shelves.complete(false), least))
      return block;
    Lane* const own = moved_.stock_.shelves.find(request_.lane);
    if (own == nullptr || !allows_ordered_) return nullptr;
    return first_with_page(own->shelf(false).ready, least);
  }

  template <typename Index>
  Block* first_with_page(const Index& index, std::size_t least) {
    Block* block = index.first(least);
    for (std::size_t looks = 0; block != nullptr && looks < kMostLooks; ++looks) {
      ordering::count_steps(1);
      if (has_movable_pages(*block->segment) && has_page(*block, *block) && spare(*block) >= page_)
        return block;
      block = index.after(block);
    }
    return nullptr;
  }

  [[nodiscard]] bool is_usable(const Block& block) const {
    if (block.waits == BlockWaits::nothing) return true;
    return allows_ordered_ && moved_.stock_.shelves.ready(block, request_.user.id());
  }

  // Subtracts the found blocks from the spare bytes of their lanes at once, because blocks that are
  // within the spare bytes one by one may exceed them together.
  Blocks find_in(const Run& run) {
    if (!has_movable_pages(*run.first->segment)) return {};
    Blocks found;
    Block* block = run.first;
    for (std::size_t i = 0; i < run.count; ++i, block = block->next) {
      if (is_usable(*block) && spare(*block) >= block->bytes) {
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
  // Adds the blocks to the spare bytes of their lanes again.
  void put_back(Blocks& found) {
    for (const Block* block = found.first; block != nullptr; block = block->next) {
      if (std::size_t* const left = spare_of(block->lane)) *left += block->bytes;
      if (block == found.last) break;
    }
    found = {};
  }

  // Returns the lane's spare bytes; nullptr if all its memory may be taken.
  std::size_t* spare_of(StreamId lane) {
    if (takes_all_ || !moved_.reuse_.kept_for_other(lane, request_)) return nullptr;
    const auto known = std::ranges::find(spare_, lane, &Spare::lane);
    if (known != spare_.end()) return &known->bytes;
    return &spare_.emplace_back(Spare{lane, moved_.unneeded(lane)}).bytes;
  }

  MovedPages& moved_;
  const Request& request_;
  const std::size_t page_;
  const bool allows_ordered_ = moved_.stock_.follows_order;
  const bool takes_all_ = moved_.limit_.room(kTakesAll) == 0;
  std::vector<Spare> spare_;
};

// Returns the bytes of a lane beyond what its stream needed in its last bursts. Returns `kAll` if
// the stream was never marked, since its need at one time is then unknown, or if it has nothing
// live.
std::size_t MovedPages::unneeded(StreamId lane) {
  const Demand demand = upkeep_.demand_of(lane);
  if (demand.previous_began == 0 || demand.live.current == 0) return kAll;
  const Lane* const kept = stock_.shelves.find(lane);
  const std::size_t has = demand.live.current + (kept == nullptr ? 0 : kept->shelves[0].bytes());
  return has - std::min(has, *std::ranges::max_element(demand.peaks));
}

// Returns how many bytes of a request are new memory although pages could be moved for them. Where
// there is no room the turn is kept, until less is reserved or more was requested.
std::size_t MovedPages::growth_in_turn() {
  const std::size_t most = limit_.room(1);
  if (most == 0) return 0;
  return std::min(most, move_patience_.growth(stock_.meter.bytes().reserved.current));
}

std::vector<Block*> MovedPages::gather(const Request& request, std::size_t bytes) {
  std::vector<Block*> gathered;
  const std::size_t page = stock_.source.page_bytes();
  if (!stock_.policy.before_growing || !stock_.source.can_move() || bytes < page) return gathered;
  bytes -= std::min(bytes, growth_in_turn());
  if (bytes < page) return gathered;
  free_blocks_.settle();
  Movable movable{*this, request};
  try {
    while (bytes >= page) {
      const Movable::Blocks found = movable.find();
      if (found.first == nullptr) break;
      gathered.push_back(nullptr);  // before the pages are claimed, since it may throw
      Block* const pages = claim_pages(movable, found.first, found.last, bytes);
      if (pages == nullptr) {
        gathered.pop_back();
        break;
      }
      bytes -= pages->bytes;
      gathered.back() = pages;
    }
  } catch (...) {  // host memory has run out
    for (Block* const pages : gathered) {
      if (pages != nullptr) free_blocks_.put(pages);
    }
    throw;
  }
  return gathered;
}

// Merges the free blocks from `first` to `last`, and claims whole pages of them, at most `most`
// bytes.
Block* MovedPages::claim_pages(Movable& movable, Block* first, Block* last, std::size_t most) {
  const bool one = first == last;
  const StreamId lane = first->lane;
  if (one) most = std::min(most, movable.spare(*first));
  free_blocks_.claim(first);
  for (bool whole = one; !whole;) {
    Block* const next = first->next;
    whole = next == last;
    free_blocks_.claim(next);
    first->points.join(next->points);
    stock_.heap.absorb(first, next);
  }
  Block* const pages = range_pages_.keep(first, most);
  if (pages != nullptr && one) movable.took(lane, pages->bytes);
  return pages;
}

Block* MovedPages::move(std::span<Block* const> pages, Block* to, Lock& lock) {
  std::size_t bytes = 0, moved = 0;
  const auto begin_moves = [&] {
    for (; moved < pages.size(); ++moved) {
      stock_.source.begin_move(to->address + bytes, pages[moved]->address, pages[moved]->bytes);
      bytes += pages[moved]->bytes;
    }
  };
  if (!pages.empty()) {
    const Unlocked unlocked{lock};
    try {
      begin_moves();
    } catch (const DeviceError&) {  // then the request grows by the missing bytes
    } catch (const std::bad_alloc&) {
    }
  }
  for (Block* const block : pages.subspan(moved)) free_blocks_.put(block);
  if (bytes == 0) return to;
  Block* const rest = bytes < to->bytes ? stock_.heap.split(to, bytes) : nullptr;
  if (rest != nullptr) rest->state = BlockState::filling;
  to->state = BlockState::claimed;
  std::byte* at = to->address;
  for (Block* const block : pages.first(moved)) {
    reports_.moved(at, block->address, block->bytes);
    at += block->bytes;
    to->points.join(block->points);
    stale_.add(block);
  }
  move_patience_.moved(bytes);
  stock_.meter.counts().bytes_moved += bytes;
  return rest;
}

}  // namespace millrace
