#include "memory/caching/survey.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// Maximum number of blocks and queues that are described one by one. The message has only the sum
// of the others.
constexpr std::size_t kMostDescribed = 1024;

// Maximum number of runs that are searched for the largest piece.
constexpr std::size_t kMostRuns = 64;

/** Counts down how many blocks and queues may still be inspected. */
class Budget {
 public:
  [[nodiscard]] bool spend() noexcept {
    ordering::count_steps(1);
    return left_ != 0 && left_-- != 0;
  }

 private:
  std::size_t left_ = kMostDescribed;
};

// Returns the same number for blocks that are stranded in the same lane for the same reason.
std::uint64_t kind_of(const Block& block) {
  std::uint64_t kind = 0;
  const auto mix = [&](std::uint64_t value) {
    kind = (kind ^ value) * 0x9e3779b97f4a7c15;
    kind ^= kind >> 32;
  };
  const auto mix_stream = [&](StreamId id) { mix(std::uint64_t{id.generation} << 32 | id.slot); };
  mix_stream(block.lane);
  for (const Point point : block.points) {
    mix_stream(point.stream);
    mix(point.marker);
  }
  return kind;
}

struct Share {
  const Block* one;  // one of several blocks of a kind
  std::size_t bytes;
};
using Shares = std::unordered_map<std::uint64_t, Share>;  // by `kind_of`

void add_share(Shares& shares, const Block& block) {
  shares.try_emplace(kind_of(block), Share{&block, 0}).first->second.bytes += block.bytes;
}

std::size_t largest_of(const Shelf& shelf) {
  const Block* const last = shelf.ready.last();
  return last == nullptr ? 0 : last->bytes;
}

}  // namespace

bool Survey::may_have(const Block& block, StreamId stream) const {
  if (block.state != BlockState::free) return false;
  if (!stock_.lanes_mix && block.lane != stream) return false;
  return stock_.shelves.ready(block, stream);
}

// Returns the bytes of the largest piece of free neighbors that the stream may use: a request can
// merge them.
std::size_t Survey::largest_run(StreamId stream) const {
  std::size_t largest = 0;
  Budget budget;
  const auto grow = [&](std::size_t bytes, const Block* block, Block* Block::*next) {
    for (; block != nullptr && may_have(*block, stream) && budget.spend(); block = block->*next) {
      bytes += block->bytes;
    }
    return bytes;
  };
  for (const bool small : {false, true}) {
    std::size_t looks = 0;
    stock_.runs.visit_largest(small, [&](const Run& run) {
      // A block that the stream may not use divides the run. Blocks beside the run may belong to
      // another run.
      std::size_t piece = grow(0, run.first->previous, &Block::previous);
      const Block* block = run.first;
      for (std::size_t i = 0; i < run.count; ++i, block = block->next) {
        ordering::count_steps(1);
        piece = may_have(*block, stream) ? piece + block->bytes : 0;
        largest = std::max(largest, piece);
      }
      if (piece > 0) largest = std::max(largest, grow(piece, block, &Block::next));
      return ++looks < kMostRuns;
    });
  }
  return largest;
}

// Sharing::own_stream: a stream cannot use blocks of other lanes, whatever they wait for.
void Survey::picture_of_lanes(StreamId user, MemoryPicture& seen) const {
  std::map<std::string, std::size_t> kept;
  Budget budget;
  stock_.shelves.visit_lanes([&](const Lane& lane) {
    for (const Shelf& shelf : lane.shelves) {
      if (lane.stream == user) {
        seen.usable += shelf.bytes();
        seen.largest_usable = std::max(seen.largest_usable, largest_of(shelf));
      } else if (shelf.bytes() > 0) {
        kept[stock_.device.name(lane.stream)] += shelf.bytes();
      }
    }
    return budget.spend();
  });
  completions_.pending().visit([&](const Block& block) {
    kept[stock_.device.name(block.lane)] += block.bytes;
    return budget.spend();
  });
  for (const auto& [name, bytes] : kept) {
    seen.stranded.push_back({name, bytes, "only by that stream"});
  }
}

// Other policies: each free block is complete, or it waits in a queue, ready for its lane or not.
void Survey::picture_of_queues(const Request& request, MemoryPicture& seen) const {
  const StreamId user = request.user.id();
  const auto take = [&](std::size_t bytes, std::size_t largest) {
    seen.usable += bytes;
    seen.largest_usable = std::max(seen.largest_usable, largest);
  };
  const Lane* const own = stock_.shelves.find(user);
  for (const bool small : {false, true}) {
    const auto& complete = stock_.shelves.complete(small);
    take(complete.bytes(), complete.empty() ? 0 : complete.last()->bytes);
    const Shelf& nobodys = stock_.shelves.nobodys().shelves[small ? 1 : 0];
    take(nobodys.ready.bytes(), largest_of(nobodys));
    if (own != nullptr) take(0, largest_of(own->shelves[small ? 1 : 0]));
  }
  Shares shares;
  Budget budget;
  const auto look = [&](const Block& block) {
    if (may_have(block, user)) {
      take(block.bytes, block.bytes);
    } else {
      add_share(shares, block);
    }
    return budget.spend();
  };
  stock_.shelves.visit_queues([&](const WaitQueue& queue) {
    if (!budget.spend()) return false;
    if (queue.lane() == own && queue.kind() == BlockWaits::for_others) {
      take(queue.bytes(), 0);
      return true;
    }
    return queue.visit(look);
  });
  completions_.pending().visit(look);
  take(0, largest_run(user));
  std::map<std::pair<std::string, std::string>, std::size_t> stranded;
  for (const auto& [kind, share] : shares) {
    stranded[{stock_.device.name(share.one->lane), usable_when(*share.one, request)}] +=
        share.bytes;
  }
  for (const auto& [where, bytes] : stranded) {
    seen.stranded.push_back({where.first, bytes, where.second});
  }
}

MemoryPicture Survey::picture(const Request& request) const {
  MemoryPicture seen;
  seen.requested = request.requested;
  seen.rounded = request.bytes;
  seen.stream = stock_.device.name(request.user.id());
  seen.limit = allowance_.limit();
  const MemoryGauges& bytes = stock_.meter.bytes();
  seen.reserved = bytes.reserved.current;
  seen.allocated = bytes.allocated.current;
  seen.pending = completions_.pending().bytes();
  const GraphPoolStatistics pools = graphs_.statistics();
  seen.graph_pools = pools.reserved;
  seen.graph_pools_free = pools.reserved - std::min(pools.allocated, pools.reserved);
  if (!stock_.lanes_mix) {
    picture_of_lanes(request.user.id(), seen);
  } else {
    picture_of_queues(request, seen);
  }
  std::size_t described = seen.allocated + seen.usable;
  for (const MemoryPicture::Stranded& where : seen.stranded) described += where.bytes;
  if (described < seen.reserved) {
    seen.stranded.push_back(
        {"other streams", seen.reserved - described, "after more than is described one by one"});
  }
  return seen;
}

// Describes when the user of the request could use the block.
std::string Survey::usable_when(const Block& block, const Request& request) const {
  std::string usable;
  for (const Point point : block.points) {
    if (stock_.device.ledger().ordered(point, request.user.id())) continue;
    const auto when = stock_.device.earliest_wait(request.user.id(), point);
    usable += usable.empty() ? "" : " and ";
    usable += when ? "after marker " + std::to_string(point.marker) + " of " +
                         stock_.device.name(point.stream)
                   : "not until " + stock_.device.name(point.stream) +
                         " is marked (not attached, or independent)";
  }
  return usable;
}

UsableBytes Survey::usable(StreamId stream) const {
  UsableBytes result;
  for (const auto& [base, segment] : stock_.heap.segments()) {
    std::size_t run = 0;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (may_have(*block, stream)) {
        run = stock_.lanes_mix ? run + block->bytes : block->bytes;
        result.total += block->bytes;
        result.largest = std::max(result.largest, run);
        continue;
      }
      run = 0;
      if (block->has_memory() && block->state != BlockState::live) result.stranded += block->bytes;
    }
  }
  return result;
}

}  // namespace millrace
