#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "memory/heap.hpp"
#include "memory/meter.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/*
 * How it works. A free block carries points: what must happen before its next use. It is kept in
 * the lane of the stream that used it first. A request looks, in this order, for
 *   1. the best fit that the one rule gives its stream for nothing: own lane, then other lanes up
 *      to the carve limit, then memory that nobody used yet; once more after one poll;
 *   2. free neighbours that together are large enough, all of them ready;
 *   3. a block that the stream can be made to wait for and whose last use is long ago: the one
 * whose marker was recorded earliest, then the best fit; else the first run of such neighbours;
 *   4. new memory, as long as the stream has less than its fair share;
 *   5. any other block that the stream can be made to wait for, or new memory;
 *   6. anything that waiting, merging, callbacks and giving segments back can make.
 * New memory for large requests is mapped behind what a growable range of the stream's own has, or
 * in a hole of it: no more than is missing from the free blocks in front of it. Elsewhere it is a
 * new segment.
 * PyTorch's way is the same with lanes that never mix and frees that a host poll completes.
 * The lock is never held across a driver call: what such a call is about is claimed first, which
 * takes it out of everybody's sight, and is put back if the call fails.
 */
struct CachingAllocator::State {
  using Lock = std::unique_lock<std::mutex>;

  /** @brief Around a driver call. */
  class Unlocked {
   public:
    explicit Unlocked(Lock& lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked&) = delete;
    Unlocked& operator=(const Unlocked&) = delete;

   private:
    Lock& lock_;
  };

  struct Request {
    std::size_t requested;
    std::size_t bytes;  // rounded
    bool small;
    StreamRef owner;
    StreamRef user;
    Tag tag;
    StreamId lane;  // where it looks first
  };

  /** @brief What a stream needs at once, as seen so far. */
  struct Demand {
    Gauge live;
    Marker marker = 0;  // the burst is before it
    std::size_t burst = 0;
    std::size_t largest_burst = 0;
    std::uint64_t began = 0;           // the newest marker when the burst began, as a serial
    std::uint64_t previous_began = 0;  // when the burst before it did
  };

  State(OrderedDevice& d, SegmentSource& s, Policy p, MemoryLimits l)
      : device(d), source(s), policy(std::move(p)), limits(l) {}

  // caching_allocator.cpp: giving out and taking back
  Block* serve(const Request& request);
  void hand_out(const Request& request, Block* block);
  void free_on(Block* block, StreamRef stream, bool given, Lock& lock);
  void tell_allocated(const Block& block, StreamId user);
  void take_back(Block* block, std::vector<Point> points);
  void put_free(Block* block);

  // reuse.cpp: finding a free block. What is returned is claimed.
  Block* take_ready(const Request& request);
  Block* take_own(const Request& request);
  template <typename Usable>
  Block* least_run(const Request& request, std::size_t most, const Usable& usable);
  Block* take_merged(const Request& request, std::size_t most);
  Block* take_waiting(const Request& request, std::uint64_t newest, Lock& lock);
  Block* take_merged_waiting(const Request& request, std::uint64_t newest, Lock& lock);
  void merge_until(Block* first, std::size_t bytes);
  bool wait_for_block(const Request& request, Block* block, Lock& lock);
  [[nodiscard]] bool ready(const Block& block, StreamId user) const;
  [[nodiscard]] bool mergeable(const Block& block, const Block& neighbour) const;
  [[nodiscard]] bool worth_splitting(const Block& block, std::size_t bytes) const;
  [[nodiscard]] bool kept_for_other(StreamId lane, const Request& request) const;
  [[nodiscard]] std::size_t carve_limit(const Request& request) const;
  [[nodiscard]] std::uint64_t long_ago(const Request& request) const;
  [[nodiscard]] bool should_grow(const Request& request) const;
  void count_demand(const Block& block);
  void uncount_demand(const Block& block);
  void claim(Block* block);
  void poll(Lock& lock);
  void sweep();  // what polls have shown: pending blocks become free, draining ones drained

  /** @brief Where memory may be mapped in a range. */
  struct Gap {
    Segment* range = nullptr;
    Block* first = nullptr;  // of the free blocks in front of it that it makes larger; may be none
    Block* hole = nullptr;   // null: behind the last block
    std::size_t bytes = 0;   // that are missing
  };

  // ranges.cpp: memory in growable ranges
  Block* grow_range(const Request& request, Lock& lock);
  [[nodiscard]] std::optional<Gap> least_gap(const Request& request, StreamId home) const;
  bool add_range(const Request& request, Lock& lock);
  Block* map(const Gap& gap, Lock& lock);
  std::size_t unmap_free(Segment& range, std::size_t most, Lock& lock);
  Block* keep_pages(Block* block, std::size_t most);
  void unmap(Block* pages, Lock& lock);
  void release_range(const Segment& range);
  [[nodiscard]] std::ptrdiff_t ranges_of(StreamId home) const;
  [[nodiscard]] bool uses_ranges(const Request& request) const;

  // growth.cpp: segments
  Block* grow(const Request& request, Lock& lock);
  Block* acquire(std::size_t bytes, const Request& request, Lock& lock);
  Block* reclaim(const Request& request, Lock& lock);
  Block* take_cached(const Request& request, Lock& lock);
  [[nodiscard]] std::vector<Point> points_of_runs(const Request& request) const;
  bool await(const std::vector<Point>& points, Lock& lock);
  Block* ask_callbacks(const Request& request, Lock& lock);
  Block* search(const Request& request, Lock& lock);
  bool obtain(std::size_t bytes, Lock& lock, const std::function<void()>& ask);
  std::size_t release_free_segments(std::size_t keep_bytes, Lock& lock);
  std::size_t release_free_memory(std::size_t keep_bytes, std::size_t enough, Lock& lock);
  bool release_if_free(std::byte* base, Lock& lock);
  void collect_old_segments(const Request& request, Lock& lock);
  bool complete_on_host(Block* block, Lock& lock);
  void release(Block* whole, Lock& lock);
  [[noreturn]] void fail(const Request& request, Lock& lock);

  // inspection.cpp
  [[nodiscard]] UsableBytes usable(StreamId stream) const;
  [[nodiscard]] bool may_have(const Block& block, StreamId stream) const;
  [[nodiscard]] MemoryPicture picture(const Request& request) const;
  void check() const;

  OrderedDevice& device;
  SegmentSource& source;
  Policy policy;
  MemoryLimits limits;
  std::size_t capacity = 0;  // bytes that the device has; 0: it would not say

  mutable std::mutex mutex;  // of everything below
  Heap heap;
  Meter meter;
  std::vector<Block*> pending;   // Return::polled: freed, their uses not seen complete
  std::vector<Block*> draining;  // free, but their own lane would have to wait
  std::vector<MemoryCallback> callbacks;
  AllocationObserver* observer = nullptr;
  std::unordered_map<StreamId, Demand> demand;  // by lane
  std::size_t growing = 0;                      // bytes being asked of the source
  std::uint64_t next_id = 1;
  std::uint64_t clock = 0;  // ages of segments
};

}  // namespace millrace
