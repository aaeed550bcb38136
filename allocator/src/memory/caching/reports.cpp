#include "memory/caching/reports.hpp"

#include <algorithm>
#include <vector>

namespace millrace {

void Reports::report_allocated(const Block& block, StreamId user) const {
  const Frontier frontier = device_.ledger().frontier(user);
  const Frontier completed = device_.ledger().completed_frontier();
  observer_->allocated({block.live.id, block.address, block.live.requested, block.bytes,
                        block.live.owner.id(), user, meter_.name(block.tag), frontier, completed});
}

void Reports::report_all(const Heap& heap, AllocationObserver& observer) const {
  std::vector<const Block*> live;
  for (const auto& [base, segment] : heap.segments()) {
    // Each piece of memory without holes is one segment for the observer.
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    const auto report = [&] {
      if (bytes != 0) observer.segment_acquired(begin, bytes);
      bytes = 0;
    };
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      if (!block->has_memory()) {
        report();
        continue;
      }
      if (bytes == 0) begin = block->address;
      bytes += block->bytes;
      if (block->state == BlockState::live) live.push_back(block);
    }
    report();
  }
  std::ranges::sort(live, {}, [](const Block* block) { return block->live.id; });
  const Frontier nothing;
  for (const Block* const block : live) {
    const StreamId owner = block->live.owner.id();
    observer.allocated({block->live.id, block->address, block->live.requested, block->bytes, owner,
                        owner, meter_.name(block->tag), nothing, nothing});
  }
}

}  // namespace millrace
