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

/** @brief What a training loop uses. Everything that it refers to outlives the loop. */
struct LoopSetting {
  OrderedDevice& device;
  Allocator& allocator;  ///< allocates device memory
  Allocator& batches;    ///< allocates batches: the same allocator, or one with the driver's pool
  Allocator& pinned;     ///< allocates pinned host memory
  LoopClock& clock;
  Executor* host = nullptr;  ///< spends Workload::host_us; nullptr: the host takes no time for it
  /// Maximum number of pending launches, for a device whose own queue cannot be set; 0: the
  /// device's own bound.
  unsigned most_launches_ahead = 0;
  /// Records the allocators and the bytes stranded for main; stopped at the end. It must be
  /// attached to the machine and the device already.
  Timeline* timeline = nullptr;
};

/** @brief Options of a training loop. */
struct LoopOptions {
  CopyMethod method = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  std::size_t warm_up = 4;  ///< first steps, which times and the window do not include
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::function<void()> step_done{};  ///< called after each step, on the thread that runs the loop
};

/** @brief The result of a run; without the warm-up unless a member says otherwise. */
struct LoopReport {
  std::vector<Nanoseconds> steps;  ///< from the end of one step on main to the end of the next
  Nanoseconds mean_step{0};
  Nanoseconds copy_per_step{0};  ///< time in which batches were copied to the device
  double h2d_hidden = 1;         ///< 1 - copying while main ran nothing / copying
  std::array<double, static_cast<std::size_t>(Call::count_)> calls_per_step{};

  MemoryGauges whole;             ///< peaks of the whole run, including batches
  MemoryGauges window;            ///< peaks after the warm-up
  std::size_t stranded_peak = 0;  ///< for main, at the ends of steps
  double stranded_mean = 0;
  double fragmentation_mean = 0;

  std::size_t batches_at_rest = 0;  ///< maximum number of batches on the device between steps
  std::size_t batches_at_peak = 0;  ///< maximum number of batches on the device at any time

  std::map<StreamId, std::string> streams;  ///< the loop's streams, by name
};

/**
 * @brief Runs the pipeline of a workload, with one batch of `batches` per step.
 *
 * It is a real host program over streams, events and allocators, whose model and exchange have
 * views and costs but no data: a TrainPipeline runs a TrainModel that computes and keeps what the
 * workload says, and a SparseExchange over the workload's link.
 *
 * With `run_ahead` 0 the host waits for main after each step; otherwise the device's launch queue
 * limits how far it is ahead.
 * @throws out_of_memory, DeviceError as the allocator and the device
 * @throws std::invalid_argument if there are not more batches than `options.warm_up`
 */
[[nodiscard]] LoopReport run_training_loop(const Workload& workload,
                                           std::span<const InputShape> batches,
                                           const LoopSetting& setting, const LoopOptions& options);

/** @brief The time that an idle `device` takes to copy `bytes` bytes of pinned memory to itself. */
[[nodiscard]] Nanoseconds host_to_device_time(Device& device, std::size_t bytes);

}  // namespace millrace::experiment
