#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "millrace/device/executor.hpp"
#include "millrace/device/ordered_device.hpp"
#include "millrace/experiment/loop_clock.hpp"
#include "millrace/experiment/workload.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::experiment {

/** @brief The resources of a training loop. All of them must outlive the loop. */
struct LoopSetting {
  OrderedDevice& device;
  Allocator& allocator;  ///< allocates device memory
  Allocator& batches;    ///< allocates batches: the same allocator, or one with the driver's pool
  Allocator& pinned;     ///< allocates pinned host memory
  LoopClock& clock;
  Executor* host = nullptr;  ///< spends Workload::host_us; nullptr: it takes no host time
  /// Maximum number of pending launches, for a device whose own queue length cannot be set; 0: the
  /// device's own limit.
  unsigned most_launches_ahead = 0;
  /// Records the allocators and the bytes stranded for main. It must already be attached to the
  /// machine and the device. The loop stops it at the end.
  Timeline* timeline = nullptr;
};

/** @brief Options of a training loop. */
struct LoopOptions {
  CopyMethod method = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  std::size_t warm_up = 4;  ///< number of first steps that times and the window exclude
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::function<void()> step_done{};  ///< called after each step, on the thread that runs the loop
};

/** @brief The result of a run. It excludes the warm-up unless a member says otherwise. */
struct LoopReport {
  std::vector<Nanoseconds> steps;  ///< from the end of one step on main to the end of the next
  Nanoseconds mean_step{0};
  Nanoseconds copy_per_step{0};  ///< time in which batches were copied to the device
  double h2d_hidden = 1;         ///< 1 - copying while main ran nothing / copying
  std::array<double, static_cast<std::size_t>(Call::count_)> calls_per_step{};

  MemoryGauges whole;             ///< peaks of the whole run, including batches
  MemoryGauges window;            ///< peaks after the warm-up
  std::size_t stranded_peak = 0;  ///< maximum for main at the ends of steps
  double stranded_mean = 0;
  double fragmentation_mean = 0;

  std::size_t batches_at_rest = 0;  ///< maximum number of batches on the device between steps
  std::size_t batches_at_peak = 0;  ///< maximum number of batches on the device at any time

  std::map<StreamId, std::string> streams;  ///< names of the loop's streams
};

/**
 * @brief Runs the pipeline of a workload, with one batch of `batches` per step.
 *
 * It is a real host program with streams, events and allocators. Model and exchange have views and
 * costs but no data. A TrainPipeline runs a TrainModel with the workload's compute times and
 * activations, and a SparseExchange over the workload's link.
 *
 * With `run_ahead` 0 the host waits for main after each step. Otherwise the device's launch queue
 * limits the run-ahead.
 * @throws out_of_memory, DeviceError like the allocator and the device
 * @throws std::invalid_argument if `options.warm_up` is 0, or not smaller than the number of
 *         batches
 */
[[nodiscard]] LoopReport run_training_loop(const Workload& workload,
                                           std::span<const InputShape> batches,
                                           const LoopSetting& setting, const LoopOptions& options);

/** @brief Time of a copy of `bytes` bytes from pinned memory to an idle `device`. */
[[nodiscard]] Nanoseconds host_to_device_time(Device& device, std::size_t bytes);

}  // namespace millrace::experiment
