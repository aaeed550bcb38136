#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "millrace/experiment/run_recording.hpp"
#include "millrace/memory/statistics.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/streamer/row_capture.hpp"

namespace millrace::experiment {

/** @brief A training loop that mainly changes rows: it looks them up, computes for a fixed time,
 *         and updates them. */
struct CaptureWorkload {
  std::string device = "virtual:h200";  ///< name for find_device; virtual devices without data
  std::string allocator = "millrace";   ///< one of kAllocatorNames
  std::size_t rows = 100'000;           ///< different rows changed per step
  std::size_t width = 64;               ///< floats per row
  std::size_t tables = 4;
  std::size_t table_rows = 1'000'000;                  ///< rows per table
  Nanoseconds compute = std::chrono::milliseconds{5};  ///< work on main besides lookups and updates
  unsigned warm_up = 32, steps = 32;  ///< unmeasured steps (slots are allocated); measured steps
  unsigned run_ahead = 8;             ///< maximum number of steps that the host is ahead
  RunRecorder recorded{};             ///< empty: nothing is recorded
};

/** @brief Times of a step and of the delivery of its rows. Times are medians unless noted. */
struct CaptureRun {
  Nanoseconds step{0};       ///< device time from the start of one step to the start of the next
  Nanoseconds host_wait{0};  ///< mean time that the training thread waits for the capture
  double run_ahead = 0;      ///< mean number of steps that the host is ahead
  Nanoseconds lag_p50{0}, lag_p99{0};  ///< from the start of the update to arrival on the host
  CaptureCounts counts;                ///< counts of the measured steps
  std::size_t device_bytes = 0, pinned_bytes = 0;  ///< memory of the capture
  MemoryGauges bytes;      ///< all device memory: tables, activations, and the capture's memory
  Ladder ladder;           ///< ladder of that memory
  std::uint64_t rows = 0;  ///< changed rows per step
  std::uint64_t changed_bytes = 0;  ///< bytes of their weights per step
};

/** @brief Times of one copy of the same bytes while nothing else runs. They serve as a reference.
 */
struct CaptureReference {
  Nanoseconds on_device{0};  ///< copy within device memory
  Nanoseconds to_host{0};    ///< copy to pinned memory
};

/**
 * @brief Trains and measures.
 * @param capture  std::nullopt: without a capture
 * @throws std::invalid_argument for an unknown device or allocator, or for an invalid workload
 * @throws out_of_memory, DeviceError
 */
[[nodiscard]] CaptureRun run_capture(const CaptureWorkload& workload,
                                     const std::optional<CaptureOptions>& capture);

/** @brief Measures the reference copies. @throws like run_capture */
[[nodiscard]] CaptureReference measure_reference(const CaptureWorkload& workload);

}  // namespace millrace::experiment
