#pragma once

#include <span>
#include <utility>
#include <vector>

#include "memory/caching/allocations.hpp"
#include "memory/caching/allowance.hpp"
#include "memory/caching/batch_freeing.hpp"
#include "memory/caching/before_growth.hpp"
#include "memory/caching/callbacks.hpp"
#include "memory/caching/closing.hpp"
#include "memory/caching/completions.hpp"
#include "memory/caching/expandable.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/freeing.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/giving_back.hpp"
#include "memory/caching/growth.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/joined_lanes.hpp"
#include "memory/caching/merging.hpp"
#include "memory/caching/moved_pages.hpp"
#include "memory/caching/own_lane.hpp"
#include "memory/caching/quick_path.hpp"
#include "memory/caching/quick_uses.hpp"
#include "memory/caching/range_pages.hpp"
#include "memory/caching/ranges.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/restoring.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/search.hpp"
#include "memory/caching/stale_pages.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/survey.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/caching/waiting.hpp"
#include "memory/graph/graph_pools.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/*
 * The map of CachingAllocator. Its state consists of the parts below, each with one job and one
 * header in caching/. State itself defines the order in which a call uses them. docs/ordering.md
 * explains the one rule, and docs/allocator.md each decision.
 *
 * DATA. These classes decide nothing. All but GraphPools are in Stock, which the parts share, and
 * take no lock.
 *   Heap        segments, the blocks that tile them, and the map from addresses to live blocks
 *   Shelves     free blocks by lane, by size, and by the marker that they wait for
 *   Runs        free neighbors that together could serve a larger request
 *   Front       one for each stream: blocks that the stream freed and will probably take again
 *   Meter       statistics. Fronts count in a Tally, which Turns adds before the meter is used
 *   GraphPools  pools of CUDA graphs. Their segments are live blocks of this allocator
 *
 * A BLOCK. A free block has points: the work that must come before its next use. Its lane is the
 * stream that used it first, for which the free block is kept. Its states (BlockState) follow each
 * other:
 *
 *   claimed -> live -> quick (in a front)  -> live, or claimed -> free, when a front is emptied
 *                   -> free (on a shelf)   -> claimed
 *
 * A claimed block is on no list, so no other thread finds it.
 *
 * A REQUEST is served by the first of these sources that has memory for it:
 *   0. a block of its size class from its stream's front (QuickPath). Takes only the front's lock
 *   1. the best fit that needs no wait: own lane (OwnLane), other lanes up to the carve limit,
 *      memory that no stream has used (Reuse); once more after one poll (Completions). Then free
 *      neighbors (Merging)
 *   2. a block that was last used long ago, for which the stream can wait: the earliest marker
 *      first, then the best fit (Waiting); then a run of such neighbors (Merging)
 *   3. if the stream has its share (should_grow): any other block for which it can wait
 *   4. measures that cost less than growth: markers on streams that have none, blocks of streams
 *      that have nothing live (BeforeGrowth). If segments creep up, the complete blocks of all
 *      lanes, merged (JoinedLanes; in step 1 the closest fit)
 *   5. new memory: in the stream's growable range (Ranges), after free pages of other places were
 *      mapped there (MovedPages), or in a new segment (Growth)
 *   6. memory that waiting, merging, callbacks and giving back can free: reclaim (Search,
 *      Callbacks, GivingBack). Then the request fails with a report of all memory (Survey)
 *
 * `find` (caching_allocator.cpp) is this order in code, `Search` has steps 1 to 3, and `reclaim`
 * (reclaim.cpp) is step 6.
 *
 * A FREE puts the block into the front (QuickPath, QuickUses). Otherwise it computes the block's
 * points (Freeing), merges the block with neighbors, and puts it on a shelf (FreeBlocks).
 *
 * LOCKS are taken in this order: the turn to give memory back (GivingOrder), `ending_` of
 * StalePages, `Stock::mutex`, a front's lock. `Stock::mutex` guards all members of Stock from
 * `heap` on, and the members of the parts. It is never held across a driver call: the call's memory
 * is claimed first, so that no other thread uses it, and put back if the call fails. A front's lock
 * is taken alone, or after `mutex`.
 *
 * The preset `torch` (Sharing::own_stream) makes PyTorch's decisions with the same parts. Lanes
 * never mix, and a poll completes frees (Completions). The block that a stream freed last stays
 * unmerged until a call searches the stream's free blocks (HeldFrees). With expandable segments,
 * pages are mapped where PyTorch maps them (Expandable).
 */
struct CachingAllocator::State final : GraphMemory {
  State(OrderedDevice& device, SegmentSource& source, Policy policy, MemoryLimits limits)
      : stock(device, source, std::move(policy)),
        graphs(*this, device, stock.policy),
        allowance(stock, limits) {}

  // caching_allocator.cpp: allocates, and frees blocks that no front kept
  /** @brief Takes the lock, and puts all held blocks (HeldFrees) where searches find them. */
  [[nodiscard]] Lock enter();
  /** @brief Takes the lock, for a call that checks its own stream's held block first. */
  [[nodiscard]] Lock enter_to_serve();
  void* serve(const Request& request, bool ask_front);
  [[nodiscard]] void* serve_elsewhere(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                      Tag tag, Marker next, bool ask_front);
  void round(Request& request);
  Block* find(const Request& request, Lock& lock, bool& is_own);
  void hand_out(const Request& request, Block* block, bool was_own);
  void* report(Block* block, StreamId user);
  void take_back_unused(Block* block);
  void deallocate(void* address, const StreamRef* stream, Kept kept);
  void free_marked(void* address);
  template <typename Release>
  auto release_free(Release&& release);

  // batch.cpp: several requests or frees in one call
  [[nodiscard]] std::vector<Request> requests(std::span<const std::size_t> sizes,
                                              const PlainRequest& like);
  void serve(const std::vector<Request>& requests, std::vector<Block*>& blocks);
  void undo(std::span<Block* const> blocks);
  void free_rest(std::span<Block*> left, const StreamRef* stream);

  // reclaim.cpp: after the device or the limit refused new memory
  Block* reclaim(const Request& request, Lock& lock);
  Block* reclaim_reserve(const Request& request, Lock& lock);
  Block* ask_callbacks(const Request& request, Lock& lock);
  [[noreturn]] void fail(const Request& request, Lock& lock);

  // graph_memory.cpp: memory for the pools of graphs
  void* take(std::size_t bytes, StreamRef pool, Effort effort) override;
  void give_back(void* base, const PointSet& points) override;
  void close_front(StreamId stream) override;

  // Each part uses only parts above it. First the shared data, and the parts that store free
  // blocks.
  Stock stock;
  Reports reports{stock.device, stock.meter};
  GraphPools graphs;
  FreeBlocks free_blocks{stock};
  Completions completions{stock, free_blocks};

  // The usual request and the usual free.
  FrontUpkeep upkeep{stock, reports, free_blocks};
  QuickUses quick_uses{stock, graphs};
  QuickPath quick{stock, reports, upkeep, quick_uses};
  HeldFrees held{stock, reports, free_blocks, upkeep};

  // Live blocks, and other frees.
  Allocations allocations{stock, graphs, upkeep};
  Freeing freeing{stock, reports, graphs, free_blocks, completions, upkeep, quick_uses};
  BatchFreeing batch_freeing{stock, quick, freeing};

  // Steps 1 to 4 of a request.
  OwnLane own_lane{stock, free_blocks, held};
  Reuse reuse{stock, free_blocks, upkeep, own_lane};
  Waiting waiting{stock, free_blocks, upkeep, reuse};
  Merging merging{stock, free_blocks, reuse, waiting};
  Search search{stock, free_blocks, completions, upkeep, own_lane, reuse, waiting, merging};
  JoinedLanes joined_lanes{stock, free_blocks, reuse};
  BeforeGrowth before_growth{stock, completions, upkeep, reuse, merging, joined_lanes};

  // Memory from the device, and its way back.
  Allowance allowance;
  StalePages stale{stock, completions};
  RangePages range_pages{stock, reports, free_blocks, completions, stale};
  MovedPages moved_pages{stock, reports, free_blocks, upkeep, reuse, stale, range_pages};
  GivingBack giving_back{stock,  reports, free_blocks, completions,
                         upkeep, held,    allowance,   range_pages};
  Ranges ranges{stock, reports, free_blocks, held, allowance, stale, moved_pages, giving_back};
  Expandable expandable{stock, reports, free_blocks, allowance};
  Growth growth{stock, reports, allowance, ranges, expandable, giving_back};
  Closing closing{stock, graphs, completions, freeing, range_pages};

  Restoring restoring{stock, reports, free_blocks, upkeep};
  Callbacks callbacks;
  Survey survey{stock, graphs, completions, allowance};
};

}  // namespace millrace
