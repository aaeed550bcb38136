#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

#include "interop/torch/live_blocks.hpp"
#include "millrace/interop/torch_records.hpp"

namespace millrace::torch {

/**
 * @brief The segments and live blocks of one GPU, and PyTorch's counters of them.
 *
 * A segment is added after the source acquired it and removed before the source releases it. A
 * block is added after its allocation and removed before its free. So at each moment every block
 * lies in a segment and no two blocks overlap, in whatever order threads run. Sizes are in bytes.
 * Thread-safe.
 */
class Book {
 public:
  using Tracker = std::function<void(const TorchTraceEntry&)>;

  using Live = torch::Live;

  explicit Book(std::size_t max_split);

  /**
   * @brief The part of a request that the trace entry of a segment shows.
   *
   * A segment is added deep inside the allocator, whose interface (SegmentSource) has no place for
   * PyTorch's data. The same thread makes the request, so a thread-local variable passes it on.
   */
  struct Cause {
    CUstream_st* stream = nullptr;
    bool small = false;
    std::shared_ptr<void> context;
  };
  /** @brief While it exists, segments that the calling thread adds belong to this request. */
  class CauseScope {
   public:
    explicit CauseScope(Cause cause);
    ~CauseScope();
    CauseScope(const CauseScope&) = delete;
    CauseScope& operator=(const CauseScope&) = delete;

   private:
    const Cause cause_;
    const Cause* const outer_;
  };

  [[nodiscard]] static bool cause_is_small() noexcept;

  // Segments.
  void set_limit(std::size_t bytes);  ///< most reserved bytes; 0: no limit
  [[nodiscard]] std::size_t limit() const;
  /** @brief Counts bytes before they are reserved. @return false if the limit forbids it */
  [[nodiscard]] bool claim(std::size_t bytes);
  void unclaim(std::size_t bytes);  ///< the device refused them
  /** @brief Adds claimed bytes that were reserved. @param mapped  whether as pages of a range */
  void add_segment(void* base, std::size_t bytes, bool mapped, bool small, TorchPoolId pool);
  /** @brief Removes a segment without live blocks, or a free part of one. */
  void remove_segment(void* base, std::size_t bytes);
  /** @brief Changes the address of mapped bytes without live blocks. The reserved bytes stay the
   *         same. */
  void move_segment(void* to, void* from, std::size_t bytes, TorchPoolId pool);

  // Blocks.
  void add_block(void* address, Live live);
  /** @return the block, which no longer counts; nothing if no block is live there */
  std::optional<Live> remove_block(const void* address, std::shared_ptr<void> context);
  [[nodiscard]] std::optional<Live> find(const void* address) const;
  [[nodiscard]] bool holds(const void* address) const;  ///< whether a block is live there
  [[nodiscard]] std::size_t live_blocks(TorchPoolId pool) const;
  /** @brief Returns whether the live blocks of `pool` are exactly these. */
  [[nodiscard]] bool live_blocks_are(TorchPoolId pool,
                                     const std::unordered_set<void*>& expected) const;
  /** @brief Returns the segment that contains `address`; {nullptr, 0} if none does. */
  [[nodiscard]] std::pair<void*, std::size_t> segment_of(const void* address) const;

  // Events that change no memory.
  /** @return false if no block is live there */
  bool annotate(const void* address, std::shared_ptr<void> context);
  void count_out_of_memory(std::size_t bytes, std::size_t device_free, const Live& request);
  void count_sync();

  [[nodiscard]] TorchStatistics statistics() const;
  void reset_peaks();
  void reset_sums();

  void set_history(const TorchHistory& history, bool clears);
  void track(Tracker tracker);  ///< calls `tracker` for each entry, under this object's lock
  [[nodiscard]] std::vector<TorchTraceEntry> trace() const;
  /** @param pool  {0, 0}: all pools */
  [[nodiscard]] std::vector<TorchSegment> segments(TorchPoolId pool) const;

 private:
  struct Segment {
    std::size_t bytes = 0;
    bool mapped = false, small = false;
    TorchPoolId pool;
    CUstream_st* stream = nullptr;
    std::shared_ptr<void> context;
    std::size_t live = 0, live_bytes = 0;
    // Number of free pieces. A piece lies between two live blocks, or between one and an end of the
    // segment. It is updated from the neighbors of the block that changes, so an allocation or a
    // free visits no other block.
    std::size_t gaps = 1;
  };
  using Segments = std::map<std::byte*, Segment>;

  /// The contribution of segments to the counters. A change subtracts the segments that it
  /// replaces, adds the new ones, and is counted once. So bytes that only move between segments,
  /// for example when two become one, count neither as allocated nor as freed, and raise no peak.
  struct Share {
    std::int64_t segments = 0, bytes = 0, gaps = 0, unused = 0;

    void add(const Segment& segment, std::int64_t sign) noexcept;
  };
  void count(const Segment& kind, const Share& change);
  void count_block(const Live& live, std::int64_t sign);
  // The caller holds the lock.
  void add(std::byte* begin, std::size_t bytes, bool mapped, bool small, TorchPoolId pool);
  void remove(std::byte* begin, std::size_t bytes);
  [[nodiscard]] Segments::iterator segment_at(const std::byte* address);
  [[nodiscard]] Segments::iterator segment_of_block(const LiveBlocks::Block& block);
  [[nodiscard]] std::size_t gaps_beside(Segments::const_iterator segment, const std::byte* begin,
                                        const std::byte* end) const;
  void count_in_segment(const LiveBlocks::Block& block, bool becomes_live);
  void join(Segment& left, const Segment& right, const std::byte* boundary) const;
  void count_blocks(Segment& segment, const std::byte* begin) const;
  static void take_away(Segment& segment, const Segment& other, std::size_t gaps);
  [[nodiscard]] std::size_t& live_in(TorchPoolId pool);
  [[nodiscard]] std::size_t count_live(TorchPoolId pool) const;
  [[nodiscard]] bool is_observed() const;
  void enter(TorchTraceEntry entry);

  mutable std::mutex mutex_;
  Segments segments_;
  // The segments in which a large and a small block were counted last. The next block is usually in
  // the same one, which saves the search. Both are end() after a segment was added or removed.
  std::array<Segments::iterator, 2> lately_;
  LiveBlocks blocks_;
  std::size_t live_outside_ = 0;  // live blocks that belong to no pool
  std::map<TorchPoolId, std::size_t> live_by_pool_;
  TorchStatistics counted_;
  std::size_t claimed_ = 0;  // bytes that are reserved or about to be
  std::size_t limit_ = 0;
  const std::size_t max_split_;
  TorchHistory history_;
  std::deque<TorchTraceEntry> trace_;
  std::vector<Tracker> trackers_;
};

}  // namespace millrace::torch
