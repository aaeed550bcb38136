#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "memory/front.hpp"
#include "memory/heap.hpp"
#include "memory/meter.hpp"
#include "memory/runs.hpp"
#include "memory/shelves.hpp"
#include "memory/turns.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/memory/segment_source.hpp"
#include "millrace/ordering/adaptive_mutex.hpp"
#include "ordering/open_streams.hpp"

namespace millrace {

/**
 * @brief What the parts of a CachingAllocator share: the device, the policy, the memory, and the
 *        lock. Decides nothing.
 */
struct Stock {
  Stock(OrderedDevice& d, SegmentSource& s, Policy p)
      : device(d),
        open_streams(d.ledger()),
        source(s),
        policy(std::move(p)),
        lanes_mix(policy.sharing != Sharing::own_stream),
        follows_order(policy.sharing != Sharing::completed),
        polls_frees(policy.free_when == FreeWhen::polled),
        has_fronts(lanes_mix && follows_order),
        bins_are_pools(policy.small_limit == ClassBins::kLargest),
        saves_segments(policy.before_growing && policy.sharing == Sharing::wait_before_grow),
        granule_bits(policy.rounds_to_granule() ? policy.granule - 1 : 0),
        per_thread(d.device().per_thread_stream()),
        heap(d.completion() == Completion::synchronized),
        shelves(d.ledger(), policy.sharing) {}

  /** @brief Like OrderedDevice::resolve, without a call for most references. */
  [[nodiscard]] StreamRef resolve(StreamRef stream) const {
    return stream.id().valid() && stream.handle() != per_thread ? stream : device.resolve(stream);
  }
  /** @brief Like Policy::round. */
  [[nodiscard]] std::size_t round(std::size_t bytes) const noexcept {
    return granule_bits != 0 ? (bytes + granule_bits) & ~granule_bits : policy.round(bytes);
  }

  /**
   * @brief Returns whether a bin may keep the block. A request of this size has to search the pool
   *        of the block; otherwise it would never empty the bin.
   */
  [[nodiscard]] bool in_its_pool(const Block& block, QuickBins::Size size) const noexcept {
    return !bins_are_pools || block.segment->small == size.small();
  }

  /**
   * @brief Returns the point of a free on a stream.
   * @param next  the stream's next marker; 0: the stream is closed, so its last marker counts
   */
  [[nodiscard]] Point point_of_free(StreamId stream, Marker next) const {
    return {stream, next != 0 ? next : device.ledger().next(stream)};
  }

  /** @brief Returns whether fronts serve nothing. Called in the turn of a front. */
  [[nodiscard, gnu::always_inline]] bool is_shut() const noexcept {
    return shut.load(std::memory_order_acquire);
  }

  /** @brief Returns the id of an allocation that no front serves. Called under the lock. */
  [[nodiscard]] std::uint64_t new_id() noexcept {
    if (has_fronts) return next_id.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t id = next_id.load(std::memory_order_relaxed);  // no other thread takes ids
    next_id.store(id + 1, std::memory_order_relaxed);
    return id;
  }

  OrderedDevice& device;
  const ordering::OpenStreams open_streams;
  SegmentSource& source;
  const Policy policy;

  // Decisions of the policy that each call needs.
  const bool lanes_mix;      // a stream may take blocks of other streams' lanes
  const bool follows_order;  // false: a stream may take only blocks that are complete on the device
  const bool polls_frees;  // other streams' uses keep a free back until a poll finds them complete
  const bool has_fronts;
  const bool bins_are_pools;  // small bins have blocks of the small pool, large bins of the large
  const bool saves_segments;  // free segments reduce growth; false for graph pools, whose segments
                              // are blocks of another allocator
  const std::size_t granule_bits;  // 0: the policy rounds in another way
  const StreamHandle per_thread;   // this handle is another stream on each thread
  std::size_t capacity = 0;        // bytes of the device; 0: unknown

  Fronts fronts;
  FrontList<&Front::with_small> with_small;  // fronts with small blocks
  FrontList<&Front::with_large> with_large;  // fronts with large blocks
  // True: fronts serve nothing. Written under `mutex` with release and read with acquire, so
  // changes of a front come after everything that a pause has read.
  std::atomic<bool> shut{false};
  std::atomic<std::uint64_t> next_id{1};

  AdaptiveMutex mutex;  // guards everything below
  Heap heap;
  Meter meter;
  Turns turns{mutex, meter};
  Shelves shelves;                    // the free blocks
  Runs runs;                          // of free neighbors
  std::size_t growths_in_excess = 0;  // of large segments (LeanLimit::count_growth)
};

}  // namespace millrace
