#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "millrace/memory/statistics.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/streamer/capture.hpp"

namespace millrace::experiment {

/** @brief A training loop that does little but change rows: looks them up, computes for a while,
 * and updates them. */
struct CaptureWorkload {
  std::string device = "virtual:h200";  ///< as find_device; a virtual one without data
  std::string allocator = "millrace";   ///< one of kAllocatorNames
  std::size_t rows = 100'000;           ///< that each step changes, all different
  std::size_t width = 64;               ///< floats a row
  std::size_t tables = 4;
  std::size_t table_rows = 1'000'000;                  ///< of each
  Nanoseconds compute = std::chrono::milliseconds{5};  ///< of main, beside the tables'
  unsigned warm_up = 32, steps = 32;  ///< before what is measured, with slots made; and measured
  unsigned run_ahead = 8;  ///< steps that the host enqueues before the device has done them
};

/** @brief What a step of a loop took, and what its rows took to the host. Medians of the steps. */
struct CaptureRun {
  Nanoseconds step{0};       ///< of the device, from one step's begin to the next one's
  Nanoseconds host_wait{0};  ///< of the training thread, for the capture; the mean
  double run_ahead = 0;      ///< steps under way on the device when the host has enqueued one; mean
  Nanoseconds lag_p50{0}, lag_p99{0};  ///< from the update's begin until its rows are on the host
  CaptureCounts counts;                ///< of the measured steps
  std::size_t device_bytes = 0, pinned_bytes = 0;  ///< that the capture holds
  MemoryGauges bytes;  ///< of all device memory: tables, activations, and what the capture holds
  Ladder ladder;       ///< where it was
  std::uint64_t rows = 0;           ///< a step
  std::uint64_t changed_bytes = 0;  ///< a step, their numbers
};

/** @brief The same bytes copied once, nothing else going on: what a gather and a copy can be. */
struct CaptureReference {
  Nanoseconds on_device{0};  ///< read and written in device memory
  Nanoseconds to_host{0};    ///< to pinned memory
};

/**
 * @brief Trains with a capture, or with none, and measures.
 * @throws std::invalid_argument for a device or an allocator that there is not, or a workload that
 *         can not be; out_of_memory, DeviceError
 */
[[nodiscard]] CaptureRun run_capture(const CaptureWorkload& workload,
                                     const std::optional<CaptureOptions>& capture);

/** @throws as run_capture */
[[nodiscard]] CaptureReference measure_reference(const CaptureWorkload& workload);

}  // namespace millrace::experiment
