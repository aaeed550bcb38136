#include "memory/caching/merging.hpp"

#include <utility>

#include "memory/looks.hpp"

namespace millrace {

// Returns the first block of the smallest run of free neighbors that are all `usable` and together
// large enough. A run with a block that is kept for another stream has at most `most` bytes. A
// block that is large enough alone is in no such run: the search has inspected it before, and the
// run would be no smaller than the block.
template <typename Usable>
Block* Merging::least_run(const Request& request, std::size_t most, const Usable& usable) {
  using Rank = std::pair<std::size_t, std::pair<std::size_t, std::byte*>>;
  Block* best = nullptr;
  Rank best_rank;
  const auto look = [&](const Run& candidate) {
    Block* first = nullptr;  // the first block of the shortest run that ends at `block`
    std::size_t run = 0;
    std::size_t foreign = 0;  // blocks in the run that are kept for other streams
    Block* block = candidate.first;
    for (std::size_t i = 0; i < candidate.count; ++i, block = block->next) {
      ordering::count_steps(1);
      if (block->bytes >= request.bytes || !usable(*block)) {
        first = nullptr;
        run = foreign = 0;
        continue;
      }
      if (first == nullptr) first = block;
      run += block->bytes;
      foreign += reuse_.kept_for_other(block->lane, request) ? 1 : 0;
      while (run - first->bytes >= request.bytes) {
        run -= first->bytes;
        foreign -= reuse_.kept_for_other(first->lane, request) ? 1 : 0;
        first = first->next;
      }
      const bool allowed = foreign == 0 || run <= most;
      if (run < request.bytes || !allowed) continue;
      const Rank rank{run, place_of(first)};
      if (best == nullptr || rank < best_rank) {
        best = first;
        best_rank = rank;
      }
    }
  };
  std::size_t looks = 0;
  stock_.runs.visit(request.small, request.bytes, [&](const Run& run) {
    // Otherwise each block of the run is large enough alone.
    if (run.at_least < request.bytes) look(run);
    return ++looks < kMostCandidates;
  });
  return best;
}

Block* Merging::take(const Request& request, std::size_t most) {
  Block* best = least_run(request, most, [&](const Block& block) {
    return stock_.shelves.ready(block, request.user.id());
  });
  if (best == nullptr) return nullptr;
  free_blocks_.merge_until(best, request.bytes);
  best->lane = request.lane;
  ++stock_.meter.counts().served_ordered;
  return best;
}

Block* Merging::take_waiting(const Request& request, std::uint64_t newest, Lock& lock) {
  const auto reachable = [&](const Block& block) {
    if (newest != OrderedDevice::kTail && reuse_.kept_for_other(block.lane, request)) return false;
    const auto when = waiting_.earliest(block, request.user.id());
    return when && *when <= newest;
  };
  Block* best = least_run(request, kAnySize, reachable);
  if (best == nullptr) return nullptr;
  free_blocks_.merge_until(best, request.bytes);
  if (!waiting_.wait_for(request, best, lock)) return nullptr;
  ++stock_.meter.counts().served_waited;
  return best;
}

}  // namespace millrace
