#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/device/executor.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/data/epoch_source.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace {

/** @brief The device, the allocator and the pipeline of a run of training. */
struct TrainingOptions {
  std::string device = "virtual:h200";  ///< name for find_device
  std::string allocator = "millrace";   ///< one of kAllocatorNames
  PipelineKind pipeline = PipelineKind::base;
  CopyMethod copy = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::size_t copies_ahead = 0;  ///< see PipelineOptions::copies_ahead
  bool check_races = false;      ///< checks for races; virtual devices only; slow
  /// Records all operations on the device; its notes name the device, the allocator and the copy
  /// strategy. Recording stops before the device is destroyed.
  Timeline* timeline = nullptr;
};

/** @brief The use of device memory in a run. */
struct TrainingAccounting {
  MemoryGauges bytes;  ///< peaks of the whole run
  MemoryCounters counts;
  Ladder ladder;             ///< covers the newest allocations; its `reserved` covers the whole run
  bool whole_ladder = true;  ///< whether the ladder covers all allocations
  UsableBytes usable_by_main;               ///< current value; unknown with the driver's pool
  std::map<StreamId, std::string> streams;  ///< names of the streams
  /// Descriptions of the races found; std::nullopt if the run did not check for races.
  std::optional<std::vector<std::string>> races;
};

/** @brief An existing device, one of several that train together. */
struct TrainingEnvironment {
  Device& device;
  Executor& executor;
  CheckingObserver* checking = nullptr;  ///< attached to `device`; replaces `check_races`
};

/**
 * @brief The environment of a run of training: a device (a virtual one with host kernels, or a
 * GPU), streams, and allocators whose memory is accounted for.
 *
 * Used by one thread and the host actors of its executor. Outlives everything that is made with it.
 */
class TrainingDevice {
 public:
  /**
   * @brief Opens the device that the options name.
   * @throws std::invalid_argument for an unknown device or allocator; DeviceError
   */
  explicit TrainingDevice(const TrainingOptions& options);
  /** @brief Uses an existing device; the caller attaches timelines to it. */
  TrainingDevice(const TrainingOptions& options, const TrainingEnvironment& environment);
  ~TrainingDevice();

  [[nodiscard]] const TrainingOptions& options() const noexcept;
  [[nodiscard]] Executor& executor() noexcept;
  [[nodiscard]] OrderedDevice& ordered() noexcept;  ///< for process groups
  [[nodiscard]] PinnedStaging staging() noexcept;   ///< for sources of batches
  [[nodiscard]] PipelineStreams& streams() noexcept;
  [[nodiscard]] Allocator& memory() noexcept;   ///< allocates device memory
  [[nodiscard]] Allocator& batches() noexcept;  ///< allocates batches in device memory

  /** @brief Samples the memory. Call it in each step, while the step's memory is allocated. */
  void sample();
  /** @brief Returns the use of device memory so far. */
  [[nodiscard]] TrainingAccounting accounting();
  /** @brief The newest 20,000 allocations, and all that are live. Read it while none is made. */
  [[nodiscard]] const AllocationTrace& trace() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace millrace
