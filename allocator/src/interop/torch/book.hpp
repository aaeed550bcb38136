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
 * @brief The segments and live blocks of one GPU, with what PyTorch counts of them.
 *
 * It is told of a segment when the source has got it and before the source gives it up, of a block
 * after it was allocated and before it is freed. So at each moment every block lies in a segment,
 * and no two blocks overlap, whatever threads do. Sizes are in bytes. Thread-safe.
 */
class Book {
 public:
  using Tracker = std::function<void(const TorchTraceEntry&)>;

  using Live = torch::Live;

  explicit Book(std::size_t max_split);

  /**
   * @brief The part of a request that a segment's entry shows.
   *
   * A segment is added deep inside the allocator, whose interfaces (SegmentSource) do not know of
   * PyTorch. The request is made by the same thread, so it is passed on in a variable of the
   * thread.
   */
  struct Cause {
    CUstream_st* stream = nullptr;
    bool small = false;
    std::shared_ptr<void> context;
  };
  /** @brief While it lives, the calling thread's segments are caused by this request. */
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
  void set_limit(std::size_t bytes);  ///< of all reserved bytes; 0: none
  [[nodiscard]] std::size_t limit() const;
  /** @brief Counts bytes that are about to be reserved. @return false: the limit forbids it */
  [[nodiscard]] bool claim(std::size_t bytes);
  void unclaim(std::size_t bytes);  ///< the device refused them
  /** @brief Claimed bytes are there. @param mapped  as pages of a range */
  void add_segment(void* base, std::size_t bytes, bool mapped, bool small, TorchPoolId pool);
  /** @brief Bytes of a segment without live blocks, or of its free part, are given up. */
  void remove_segment(void* base, std::size_t bytes);
  /** @brief A mapped segment's bytes without live blocks have other addresses, within the limit as
   *         before. */
  void move_segment(void* to, void* from, std::size_t bytes, TorchPoolId pool);

  // Blocks.
  void add_block(void* address, Live live);
  /** @return the block, which is no longer counted; nothing if none is live there */
  std::optional<Live> remove_block(const void* address, std::shared_ptr<void> context);
  [[nodiscard]] std::optional<Live> find(const void* address) const;
  [[nodiscard]] bool holds(const void* address) const;  ///< whether a block is live there
  [[nodiscard]] std::size_t live_blocks(TorchPoolId pool) const;
  /** @brief Whether the live blocks of `pool` are exactly these. */
  [[nodiscard]] bool live_blocks_are(TorchPoolId pool,
                                     const std::unordered_set<void*>& expected) const;
  /** @brief The segment that `address` lies in; {nullptr, 0} if it lies in none. */
  [[nodiscard]] std::pair<void*, std::size_t> segment_of(const void* address) const;

  // Events that change no memory.
  /** @return false: no block is live there */
  bool annotate(const void* address, std::shared_ptr<void> context);
  void count_out_of_memory(std::size_t bytes, std::size_t device_free, const Live& request);
  void count_sync();

  [[nodiscard]] TorchStatistics statistics() const;
  void reset_peaks();
  void reset_sums();

  void set_history(const TorchHistory& history, bool clears);
  void track(Tracker tracker);  ///< called for each entry, under this object's lock
  [[nodiscard]] std::vector<TorchTraceEntry> trace() const;
  /** @param pool  {0, 0}: of all pools */
  [[nodiscard]] std::vector<TorchSegment> segments(TorchPoolId pool) const;

 private:
  struct Segment {
    std::size_t bytes = 0;
    bool mapped = false, small = false;
    TorchPoolId pool;
    CUstream_st* stream = nullptr;
    std::shared_ptr<void> context;
    std::size_t live = 0, live_bytes = 0;
    // Free pieces: what lies between two live blocks, or between one and an end. Kept up to date
    // from the neighbors of the block that changes, so that an allocation or a free looks at no
    // other block.
    std::size_t gaps = 1;
  };
  using Segments = std::map<std::byte*, Segment>;

  /// What segments contribute to the counts. A change subtracts the segments that it replaces, adds
  /// the new ones, and is then counted once. So bytes that only move from one segment to another,
  /// as where two become one, count neither as allocated nor as freed, and raise no peak.
  struct Share {
    std::int64_t segments = 0, bytes = 0, gaps = 0, unused = 0;

    void add(const Segment& segment, std::int64_t sign) noexcept;
  };
  void count(const Segment& kind, const Share& change);
  void count_block(const Live& live, std::int64_t sign);
  // With the book locked.
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
  [[nodiscard]] bool is_told() const;
  void enter(TorchTraceEntry entry);

  mutable std::mutex mutex_;
  Segments segments_;
  // Where a large and a small block were counted last: the next block is usually there, too, which
  // saves the search. Not valid after a segment was added or removed, which reset both to the end.
  std::array<Segments::iterator, 2> lately_;
  LiveBlocks blocks_;
  std::size_t live_outside_ = 0;  // of pools
  std::map<TorchPoolId, std::size_t> live_by_pool_;
  TorchStatistics counted_;
  std::size_t claimed_ = 0;  // reserved, and about to be
  std::size_t limit_ = 0;
  const std::size_t max_split_;
  TorchHistory history_;
  std::deque<TorchTraceEntry> trace_;
  std::vector<Tracker> trackers_;
};

}  // namespace millrace::torch
