#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory/backoff.hpp"
#include "memory/caching/allocations.hpp"
#include "memory/caching/batch_freeing.hpp"
#include "memory/caching/before_growth.hpp"
#include "memory/caching/completions.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/freeing.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/merging.hpp"
#include "memory/caching/own_lane.hpp"
#include "memory/caching/quick_path.hpp"
#include "memory/caching/quick_uses.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/search.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/caching/waiting.hpp"
#include "memory/graph/graph_pools.hpp"
#include "memory/growths.hpp"
#include "memory/move_patience.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/*
 * The map of CachingAllocator. Its state is this one class, and each file implements one decision;
 * the declarations below are grouped by file. docs/ordering.md explains the one rule, and
 * docs/allocator.md each decision.
 *
 * PARTS. Heap, Shelves and Runs hold data: they decide nothing and lock nothing.
 *   Heap        segments, the blocks that tile them, and the map from addresses to live blocks
 *   Shelves     free blocks by lane, by size, and by the marker that they wait for
 *   Runs        free neighbors that together could serve a larger request
 *   Front       one for each stream: blocks that the stream freed and will probably take again
 *   Meter       statistics. Fronts count in a Tally, which Turns adds before the meter is used
 *   GraphPools  pools of CUDA graphs. Their segments are live blocks of this allocator
 *
 * A BLOCK. A free block carries points: what must happen before its next use. Its lane is the
 * stream that used it first. Its states (BlockState) follow each other:
 *
 *   claimed -> live -> quick (in a front)  -> live, or claimed -> free, when a front is emptied
 *                   -> free (on a shelf)   -> claimed
 *
 * A claimed block is on no list, so no other thread finds it.
 *
 * A REQUEST takes the first of these that serves:
 *   0. a block of its size class from its stream's front: take_quick (front.cpp). Only the front's
 * lock
 *   1. the best fit that needs no wait: own lane, other lanes up to the carve limit, memory that no
 *      stream has used; once more after one poll (reuse.cpp). Then free neighbors (merging.cpp)
 *   2. a block that was last used long ago, for which the stream can wait: the earliest marker
 *      first, then the best fit; then a run of such neighbors (waiting.cpp, merging.cpp)
 *   3. if the stream has its share (should_grow): any other block for which it can wait
 *   4. what costs less than growth: markers on streams that have none, blocks of streams that have
 *      nothing live (before_growth.cpp)
 *   5. new memory: in the stream's growable range, where pages that are free elsewhere are mapped
 *      first (ranges.cpp, moved_pages.cpp), or in a new segment (growth.cpp)
 *   6. what waiting, merging, callbacks and giving back can free: reclaim (growth.cpp,
 *      giving_back.cpp). Then the request fails, with the picture of memory (picture.cpp)
 * `find` (caching_allocator.cpp) is this order in code, and `search` (reuse.cpp) steps 1 to 3.
 *
 * A FREE goes to the front (keep_quick), or computes its points, merges the block with neighbors
 * and puts it on a shelf (freeing.cpp).
 *
 * LOCKS. `mutex` guards everything from `heap` on. It is never held across a driver call: the
 * call's memory is claimed first, so that no other thread uses it, and put back if the call fails.
 * A front's lock is taken alone, or after `mutex`.
 *
 * The preset `torch` (Sharing::own_stream) makes PyTorch's decisions with the same parts: lanes
 * never mix, a poll completes frees (pending_frees.cpp), and the block that a stream freed last
 * stays unmerged until a call looks at the stream's free blocks (held_block.cpp).
 */
struct CachingAllocator::State : GraphMemory {
  /** As Policy::moved_before_growth, for segments: giving one back may make the device wait. */
  static constexpr double kGivenBackBeforeGrowth = 1.0 / 256;
  State(OrderedDevice& device, SegmentSource& source, Policy policy, MemoryLimits l)
      : stock(device, source, std::move(policy)), graphs(*this, device, stock.policy), limits(l) {}

  // caching_allocator.cpp: giving out
  /** @brief Takes the lock before anything is looked at. */
  [[nodiscard]] Lock enter();
  /** @brief The same for what looks at one stream's held block first. */
  [[nodiscard]] Lock enter_to_serve();
  void* serve(const Request& request, bool ask_front);
  [[nodiscard]] void* serve_elsewhere(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                      Tag tag, Marker next, bool ask_front);
  void hand_out(const Request& request, Block* block, bool was_own);
  Block* find(const Request& request, Lock& lock, bool& is_own);

  // freeing.cpp: taking back
  void deallocate(void* address, const StreamRef* stream, Kept kept);
  void free_marked(void* address);

  // batch.cpp: many at once
  [[nodiscard]] std::vector<Request> requests(std::span<const std::size_t> sizes,
                                              const PlainRequest& like);
  void serve(const std::vector<Request>& requests, std::vector<Block*>& blocks);
  void undo(std::span<Block* const> blocks);
  void free_rest(std::span<Block*> left, const StreamRef* stream);

  /** @brief Where memory may be mapped in a range. */
  struct Gap {
    Segment* range = nullptr;
    Block* first = nullptr;  // of the free blocks in front of it that it makes larger; may be none
    Block* hole = nullptr;   // null: behind the last block; stale: to be unmapped first
    std::size_t bytes = 0;   // that are missing
  };

  // ranges.cpp: memory in growable ranges
  Block* grow_range(const Request& request, Lock& lock);
  std::optional<Gap> find_gap(const Request& request, Lock& lock);
  std::optional<Gap> find_gap_of(const Request& request, bool stale_too, Lock& lock);
  [[nodiscard]] std::optional<Gap> least_gap(const Request& request, StreamId home,
                                             bool stale_too) const;
  bool add_range(const Request& request, Lock& lock);
  Block* map(const Request& request, const Gap& gap, Lock& lock);
  std::size_t unmap_free(Segment& range, std::size_t most, Lock& lock);
  std::size_t unmap_run(Block* block, std::size_t most, Lock& lock, Block*& before);
  [[nodiscard]] bool has_page(const Segment& range, const std::byte* begin,
                              const std::byte* end) const;
  Block* keep_pages(Block* block, std::size_t most);
  void unmap(Block* pages, Lock& lock);
  void release_range(const Segment& range);
  [[nodiscard]] Gap gap_behind(Segment& range, Block* last, const Request& request) const;
  [[nodiscard]] std::ptrdiff_t ranges_of(StreamId home) const;
  [[nodiscard]] bool uses_ranges(const Request& request) const;

  // moved_pages.cpp: pages that lie elsewhere
  class Movable;
  std::vector<Block*> gather_pages(const Request& request, std::size_t bytes);
  Block* claim_pages(Movable& movable, Block* first, Block* last, std::size_t most);
  Block* move_pages(std::span<Block* const> pages, Block* to, Lock& lock);
  [[nodiscard]] bool is_complete(const Block& block) const;
  bool unmap_stale(Block* block, std::size_t bytes, Lock& lock);
  bool unmap_stale(std::size_t most, Lock& lock);
  void keep_stale(Block* block, std::size_t bytes);
  bool unmap_all_stale(Lock& lock);
  [[nodiscard]] std::size_t unneeded(StreamId lane);

  // growth.cpp: new segments, and what is done where the device has none
  Block* grow(const Request& request, Lock& lock);
  [[nodiscard]] std::size_t small_segment() const;
  [[nodiscard]] std::size_t shared_segment(const Request& request);
  [[nodiscard]] std::size_t roomy_segment(std::size_t needed, std::size_t multiple) const;
  Block* acquire(std::size_t bytes, const Request& request, Lock& lock);
  Block* reclaim(const Request& request, Lock& lock);
  Block* ask_callbacks(const Request& request, Lock& lock);
  bool obtain(std::size_t bytes, Lock& lock, const std::function<void()>& ask);
  bool leaves_headroom(Growths::Growth growth, Lock& lock);
  Block* grow_reserve(const Request& request, Lock& lock);
  [[noreturn]] void fail(const Request& request, Lock& lock);

  // giving_back.cpp: memory that goes back to the device
  bool give_back_too_small(const Request& request, std::size_t most, Lock& lock);
  [[nodiscard]] const Segment* largest_complete_below(std::size_t bytes) const;
  std::size_t release_free_segments(std::size_t keep_bytes, bool kept, Lock& lock);
  std::size_t release_free_memory(std::size_t keep_bytes, std::size_t enough, Lock& lock);
  bool release_if_free(std::byte* base, Lock& lock);
  bool release_range_if_free(Segment& range, Lock& lock);
  [[nodiscard]] const Segment* oldest_free_segment() const;
  void collect_old_segments(const Request& request, Lock& lock);
  void release(Block* whole, Lock& lock);
  [[nodiscard]] PointSet points_of(const Segment& segment) const;
  [[nodiscard]] bool used_by_graphs(const Segment& segment) const;
  bool await_all(const Segment& segment, Lock& lock);
  void release_everything();

  // graph_memory.cpp: what the pools of graphs have of it
  void* take(std::size_t bytes, StreamRef pool, Effort effort) override;
  void give_back(void* base, const PointSet& points) override;
  void close_front(StreamId stream) override;

  // inspection.cpp
  [[nodiscard]] UsableBytes usable(StreamId stream) const;
  void check() const;

  // picture.cpp: what the message of a request that fails says
  [[nodiscard]] MemoryPicture picture(const Request& request) const;
  void picture_of_lanes(StreamId user, MemoryPicture& seen) const;
  void picture_of_queues(const Request& request, MemoryPicture& seen) const;
  [[nodiscard]] std::size_t largest_run(StreamId stream) const;
  [[nodiscard]] bool may_have(const Block& block, StreamId stream) const;
  [[nodiscard]] std::string usable_when(const Block& block, const Request& request) const;

  Stock stock;
  Reports reports{stock.device, stock.meter};
  FreeBlocks free_blocks{stock};
  Completions completions{stock, free_blocks};
  GraphPools graphs;
  FrontUpkeep upkeep{stock, reports, free_blocks};
  QuickUses quick_uses{stock, graphs};
  QuickPath quick{stock, reports, upkeep, quick_uses};
  HeldFrees held{stock, reports, free_blocks, completions, upkeep};
  Allocations allocations{stock, graphs, upkeep};
  Freeing freeing{stock, reports, graphs, free_blocks, completions, upkeep, quick_uses};
  BatchFreeing batch_freeing{stock, quick, freeing};
  OwnLane own_lane{stock, free_blocks, held};
  Reuse reuse{stock, free_blocks, upkeep, own_lane};
  Waiting waiting{stock, free_blocks, upkeep, reuse};
  Merging merging{stock, free_blocks, reuse, waiting};
  Search search{stock, free_blocks, completions, upkeep, own_lane, reuse, waiting, merging};
  BeforeGrowth before_growth{stock, completions, upkeep, reuse, merging};
  MemoryLimits limits;

  struct Callback {
    int turn;
    MemoryCallback ask;
  };
  std::vector<Callback> callbacks;  // by turn
  Backoff range_refusals;           // of the source
  MovePatience move_patience{stock.policy.moved_before_growth};
  MovePatience give_back_patience{kGivenBackBeforeGrowth};
  std::deque<Block*> stale;  // whose pages lie elsewhere now, and that are still mapped
  std::size_t stale_bytes = 0;
  Mutex ending;  // held while a stale block is unmapped; taken before the allocator's lock
  Growths growing;
};

}  // namespace millrace
