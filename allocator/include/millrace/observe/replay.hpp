#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/memory/policy.hpp"
#include "millrace/memory/statistics.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief How many decisions of the recorded allocator were made again. */
struct ReplayDecisions {
  std::size_t same = 0;            ///< allocations at the recorded address
  std::size_t total = 0;           ///< allocations whose address the log tells, and can be compared
  std::size_t segments_same = 0;   ///< segments taken at the same allocation, of the same size
  std::size_t segments_total = 0;  ///< segments that either of the two took
  std::string first_difference;    ///< "" if there is none
};

/** @brief Reserved bytes after an event, recorded and replayed; one point where either changes. */
struct ReservedPoint {
  std::uint64_t event = 0;  ///< its place in the device's trace
  std::int64_t time_us = 0;
  std::size_t recorded = 0;
  std::size_t replayed = 0;
};

/** @brief What an allocator holds when its replay begins. */
enum class ReplayStart : std::uint8_t {
  /** The layout that PyTorch had, its cached segments included; segments go back to the driver when
   * PyTorch gave them back. Only with the `torch` policy on a PyTorch snapshot. */
  recorded,
  /** The blocks that were live, allocated anew, and no cache. The cache is emptied when the program
   * emptied PyTorch's (`torch.cuda.empty_cache()`). */
  live_blocks,
};

[[nodiscard]] const char* to_string(ReplayStart start) noexcept;  ///< "recorded", "live blocks"

/** @brief What came of replaying one device's part of a log. All sizes in bytes. */
struct ReplayReport {
  std::string allocator;
  std::uint32_t device = 0;
  ReplayStart start = ReplayStart::live_blocks;
  std::size_t device_bytes = 0;    ///< as ReplayOptions has it
  std::size_t start_reserved = 0;  ///< when the first event is still to come
  std::size_t allocations = 0;
  std::size_t frees = 0;

  MemoryStatistics statistics;
  Ladder ladder;
  std::size_t load = 0;  ///< most requested bytes that live at once: no allocator needs less
  /** An offline packing of the requests that knows the future; at most the ladder's `packed`. */
  std::size_t packed = 0;
  /// @name Only where the log tells what its own allocator reserved: PyTorch
  /// @{
  std::optional<std::size_t> recorded_peak;
  std::vector<ReservedPoint> curve;          ///< empty for other logs
  std::optional<ReplayDecisions> decisions;  ///< only with the `torch` policy
  /// @}
  std::vector<std::string> warnings;
};

/** @brief What the requests of one device need, whatever the allocator. Bytes. */
struct RequestBounds {
  std::size_t load = 0;    ///< most requested bytes that live at once: nothing needs less
  std::size_t packed = 0;  ///< the best offline packing of the requests that was found
};

/** @brief Finds both; `best_pack` may take seconds. */
[[nodiscard]] RequestBounds request_bounds(const trace::AllocationLog& log, std::uint32_t device);

/** @brief What a trace is replayed with. */
struct ReplayOptions {
  Policy policy = Policy::torch();
  std::size_t device_bytes = 0;  ///< memory of the device; 0: 64 TiB
  /** Where it can be had, else the live blocks. */
  ReplayStart start = ReplayStart::recorded;
  /** If known already, so that several replays of one log find them once. */
  std::optional<RequestBounds> bounds{};
};

/** @brief How much memory the recorded allocator's device had for it. */
struct RecordedDevice {
  /** Where the size is known from. */
  enum class Source : std::uint8_t {
    unknown,        ///< PyTorch was never short of memory, or the log does not tell
    out_of_memory,  ///< PyTorch ran out: what it held then, and what the device had free
    full,           ///< PyTorch gave segments back to serve a request: the most that it ever held
  };
  Source source = Source::unknown;
  std::size_t bytes = 0;  ///< 0 if unknown
};

/**
 * @brief The size of a device, as far as a PyTorch snapshot tells it.
 *
 * A program that empties PyTorch's cache right before a request that needs a new segment looks like
 * a request that found the device full.
 */
[[nodiscard]] RecordedDevice recorded_device(const trace::AllocationLog& log, std::uint32_t device);

/**
 * @brief Makes the requests of one device of a log again, in order, on an allocator of its own.
 *
 * Nothing is touched: addresses are numbers. Work that a log does not tell of is taken as pending:
 * a block that was freed serves another stream only after a wait, or when the log says that its
 * free was complete.
 *
 * With the `torch` policy and the recorded start, a PyTorch snapshot starts from the layout that
 * its trace began with, gets its segments where they were, and gives back what was given back: then
 * every decision can be compared. The `torch` policy keeps private pools apart as PyTorch does.
 * Expandable segments are not modelled: what lay there is replayed in ordinary segments and not
 * compared, and a warning says so. To compare policies, give each of them the same start.
 * @throws out_of_memory if `device_bytes` are not enough
 */
[[nodiscard]] ReplayReport replay(const trace::AllocationLog& log, std::uint32_t device,
                                  const ReplayOptions& options);

}  // namespace millrace
