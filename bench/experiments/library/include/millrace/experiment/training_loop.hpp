#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "millrace/device/ordered_device.hpp"
#include "millrace/experiment/loop_clock.hpp"
#include "millrace/experiment/workload.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::experiment {

/** @brief What a training loop runs on. All of it outlives the loop. */
struct LoopSetting {
  OrderedDevice& device;
  Allocator& allocator;  ///< of device memory
  Allocator& batches;    ///< of the batches: the same one, or one with the driver's pool
  Allocator& pinned;     ///< of pinned host memory
  LoopClock& clock;
  /** Launches that may be pending, for a device whose own queue can not be set; 0: its own bound.
   */
  unsigned most_launches_ahead = 0;
  /** Watches the allocators, and what is stranded for main, and is stopped at the end. Attached to
   * machine and device before. */
  Timeline* timeline = nullptr;
};

struct LoopOptions {
  CopyMethod method = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  std::size_t warm_up = 4;  ///< first steps, that no time and no window counts
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::function<void()> step_done{};  ///< called after each step, on the thread that runs the loop
};

/** @brief What a run was like, its warm-up left out unless said otherwise. */
struct LoopReport {
  std::vector<Nanoseconds> steps;  ///< from the end of one step on main to the end of the next
  Nanoseconds mean_step{0};
  Nanoseconds copy_per_step{0};  ///< time in which batches were copied to the device
  double h2d_hidden = 1;         ///< 1 - copying while main ran nothing / copying
  std::array<double, static_cast<std::size_t>(Call::count_)> calls_per_step{};

  MemoryGauges whole;             ///< peaks of the whole run, batches included
  MemoryGauges window;            ///< peaks after the warm-up
  std::size_t stranded_peak = 0;  ///< for main, at the ends of steps
  double stranded_mean = 0;
  double fragmentation_mean = 0;

  std::size_t batches_at_rest = 0;  ///< held on the device between steps, at most
  std::size_t batches_at_peak = 0;  ///< held on the device at any moment

  std::map<StreamId, std::string> streams;  ///< the loop's streams, by name
};

/**
 * @brief Runs the pipeline of a workload: one batch of `batches` a step.
 *
 * A real host program over streams, events and allocators, whose model and exchange have views and
 * costs but no data: TrainPipeline drives a TrainModel that computes and keeps what the workload
 * says, and a SparseExchange over the workload's link.
 *
 * With `run_ahead` 0 the host waits for main after each step; otherwise the device's launch queue
 * bounds how far it is ahead.
 * @throws out_of_memory, DeviceError as the allocator and the device
 * @throws std::invalid_argument if there are no more batches than `options.warm_up`
 */
[[nodiscard]] LoopReport run_training_loop(const Workload& workload,
                                           std::span<const InputShape> batches,
                                           const LoopSetting& setting, const LoopOptions& options);

/** @brief How long `device` takes to copy so many bytes of pinned memory to itself, idle. */
[[nodiscard]] Nanoseconds host_to_device_time(Device& device, std::size_t bytes);

}  // namespace millrace::experiment
