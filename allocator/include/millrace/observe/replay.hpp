#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/memory/policy.hpp"
#include "millrace/memory/statistics.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief How many decisions of the replay are those of the recorded allocator. */
struct ReplayDecisions {
  std::size_t same = 0;            ///< allocations at the recorded address
  std::size_t total = 0;           ///< allocations whose recorded address can be compared
  std::size_t segments_same = 0;   ///< segments of the same size, acquired at the same allocation
  std::size_t segments_total = 0;  ///< segments that either of the two acquired
  std::string first_difference;    ///< "" if there is no difference
};

/** @brief Results of the requests that the recorded allocator could not serve. */
struct RetriedRequests {
  std::size_t tried = 0;
  std::size_t served = 0;
  bool last_served = false;  ///< whether the last one was served
};

/** @brief Reserved bytes after an event at which the recorded or the replayed value changes. */
struct ReservedPoint {
  std::uint64_t event = 0;  ///< number of the event in the device's trace
  std::int64_t time_us = 0;
  std::size_t recorded = 0;
  std::size_t replayed = 0;
};

/** @brief The memory that the allocator holds when a replay begins. */
enum class ReplayStart : std::uint8_t {
  /// PyTorch's layout, including its cached segments. Segments are released when PyTorch released
  /// them. Only with the policy `torch` and a PyTorch snapshot.
  recorded,
  /// Only the blocks that were live; they are allocated again, and the cache is empty. The cache is
  /// emptied when the program emptied PyTorch's (`torch.cuda.empty_cache()`).
  live_blocks,
};

[[nodiscard]] const char* to_string(ReplayStart start) noexcept;  ///< "recorded", "live blocks"

/** @brief The result of replaying one device's part of a log. All sizes are in bytes. */
struct ReplayReport {
  std::string allocator;
  std::uint32_t device = 0;
  ReplayStart start = ReplayStart::live_blocks;
  std::size_t device_bytes = 0;    ///< memory of the device; see ReplayOptions
  std::size_t start_reserved = 0;  ///< reserved bytes before the first event
  std::size_t allocations = 0;
  std::size_t frees = 0;

  MemoryStatistics statistics;
  Ladder ladder;
  std::size_t load = 0;  ///< peak of live requested bytes: no allocator needs less
  /// An offline packing of the requests, which knows the future; at most the ladder's `packed`.
  std::size_t packed = 0;
  /// @name Only for logs that contain the reserved bytes of their own allocator (PyTorch)
  /// @{
  std::optional<std::size_t> recorded_peak;
  std::vector<ReservedPoint> curve;          ///< empty for other logs
  std::optional<ReplayDecisions> decisions;  ///< only with the policy `torch`
  /// @}
  RetriedRequests retried;  ///< only with ReplayOptions::retries_failed
  /// The allocator's history, and its memory at the end; only with ReplayOptions::snapshot.
  std::optional<trace::TorchSnapshot> snapshot;
  std::vector<std::string> warnings;
};

/** @brief Bounds on what any allocator needs for the requests of one device, in bytes. */
struct RequestBounds {
  std::size_t load = 0;    ///< peak of live requested bytes: no allocator needs less
  std::size_t packed = 0;  ///< the best offline packing of the requests that was found
};

/** @brief Computes both bounds. May take seconds (`best_pack`). */
[[nodiscard]] RequestBounds request_bounds(const trace::AllocationLog& log, std::uint32_t device);

/** @brief Options of a replay. */
struct ReplayOptions {
  Policy policy = Policy::torch();
  std::size_t device_bytes = 0;  ///< memory of the device; 0: 64 TiB
  /// `live_blocks` is used if a recorded start is not available.
  ReplayStart start = ReplayStart::recorded;
  /// The bounds if they are known already, so that several replays of one log compute them once.
  std::optional<RequestBounds> bounds{};
  bool snapshot = false;  ///< whether the report has a snapshot
  /// Blocks get their stacks' functions as tags, or their labels if they have no stack. The ladder
  /// then has the shares of sites.
  bool sites = false;
  /// Whether requests that the recorded allocator could not serve are made as well, at the same
  /// places. A served request is freed at once. Not used with a recorded start, which repeats
  /// PyTorch's decisions.
  bool retries_failed = false;
  /// Whether the report has a ladder. Without it a replay takes a fraction of the time and memory;
  /// all levels of `ladder` are 0, and `packed` is that of the bounds.
  bool ladder = true;
  /// Gets the trace of the replay and the names of its streams, at the end of the replay. Positions
  /// of the trace are those of the replay's own events.
  std::function<void(const AllocationTrace& trace, const std::map<StreamId, std::string>& streams)>
      traced{};
};

/** @brief How much memory the device had for the recorded allocator. */
struct RecordedDevice {
  /** How the size was found. */
  enum class Source : std::uint8_t {
    unknown,        ///< the program was never short of memory, or the log does not contain it
    out_of_memory,  ///< PyTorch ran out: the bytes that it held, plus the device's free bytes
    full,           ///< PyTorch released segments to serve a request: the most that it ever held
    whole,          ///< a request failed, and a Millrace trace has the size of the device
  };
  Source source = Source::unknown;
  std::size_t bytes = 0;  ///< 0 if unknown
};

/**
 * @brief The size of a device on which the recorded program was short of memory.
 *
 * From a PyTorch snapshot it is an estimate. A trace in Millrace's format has the size of the whole
 * device, although other programs may have had a part of it. Other formats do not have it.
 *
 * If a program empties PyTorch's cache just before a request that needs a new segment, this looks
 * the same as a request that found the device full.
 */
[[nodiscard]] RecordedDevice recorded_device(const trace::AllocationLog& log, std::uint32_t device);

/**
 * @brief Repeats the requests of one device of a log, in order, on a new allocator.
 *
 * No memory is touched: addresses are numbers. A log does not contain the device's work, so freed
 * blocks count as still in use. A freed block serves another stream only after a wait, or after the
 * completion of its free in the log.
 *
 * With the policy `torch` and the recorded start, a PyTorch snapshot starts from the layout at the
 * beginning of its trace, gets segments at the recorded addresses, and releases what was released.
 * Every decision can then be compared. The policy `torch` keeps private pools separate, as PyTorch
 * does, and has expandable segments if the snapshot's settings do. If memory is not mapped in
 * PyTorch's pages, blocks of expandable segments are replayed in ordinary ones and not compared,
 * and the report has a warning. To compare policies, use the same start for each.
 * @param log     the recorded trace
 * @param device  number of the device in the log
 * @throws out_of_memory if `device_bytes` are not enough
 */
[[nodiscard]] ReplayReport replay(const trace::AllocationLog& log, std::uint32_t device,
                                  const ReplayOptions& options);

}  // namespace millrace
