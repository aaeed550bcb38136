#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "memory/front.hpp"
#include "memory/heap.hpp"
#include "memory/meter.hpp"
#include "memory/runs.hpp"
#include "memory/shelves.hpp"
#include "memory/turns.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/memory/segment_source.hpp"
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

  /** @brief The same as the device's; most references need no call. */
  [[nodiscard]] StreamRef resolve(StreamRef stream) const {
    return stream.id().valid() && stream.handle() != per_thread ? stream : device.resolve(stream);
  }
  /** @brief The same as the policy's. */
  [[nodiscard]] std::size_t round(std::size_t bytes) const noexcept {
    return granule_bits != 0 ? (bytes + granule_bits) & ~granule_bits : policy.round(bytes);
  }

  /** @brief False: a request of its size looks in the other pool, and would not empty its bin. */
  [[nodiscard]] bool in_its_pool(const Block& block, QuickBins::Size size) const noexcept {
    return !bins_are_pools || block.segment->small == size.small();
  }

  /** @brief Whether fronts serve nothing. In the turn of one. */
  [[nodiscard, gnu::always_inline]] bool is_shut() const noexcept {
    return shut.load(std::memory_order_acquire);
  }

  /** @brief Of an allocation that no front serves. Under the lock. */
  [[nodiscard]] std::uint64_t new_id() noexcept {
    if (has_fronts) return next_id.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t id = next_id.load(std::memory_order_relaxed);  // nobody else takes any
    next_id.store(id + 1, std::memory_order_relaxed);
    return id;
  }

  OrderedDevice& device;
  const ordering::OpenStreams open_streams;
  SegmentSource& source;
  const Policy policy;

  // What the policy decides for each call, worked out once.
  const bool lanes_mix;      // a stream may have blocks of other streams' lanes
  const bool follows_order;  // false: a stream may have only what the device has completed
  const bool polls_frees;    // other streams' uses hold a free back until a poll sees them complete
  const bool has_fronts;
  const bool bins_are_pools;  // small bins have blocks of the small pool, large ones of the large
  // The pool of a graph does not: what it takes and gives back are blocks of another allocator.
  const bool saves_segments;
  const std::size_t granule_bits;  // 0: the policy rounds otherwise
  const StreamHandle per_thread;   // on each thread the handle of another stream
  std::size_t capacity = 0;        // bytes that the device has; 0: it would not say

  Fronts fronts;
  FrontList<&Front::with_small> with_small;  // blocks in their class bins
  FrontList<&Front::with_large> with_large;
  std::atomic<bool> shut{false};  // fronts serve nothing; written under `mutex`. A release, and
                                  // read as an acquire: a front comes after what a pause looked at
  std::atomic<std::uint64_t> next_id{1};

  std::mutex mutex;  // of everything below
  Heap heap;
  Meter meter;
  Turns turns{mutex, meter};
  Shelves shelves;  // the free blocks
  Runs runs;        // of them those that are neighbors
};

}  // namespace millrace
