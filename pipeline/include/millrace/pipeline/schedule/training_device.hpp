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

struct TrainingOptions {
  std::string device = "virtual:h200";  ///< as footprint_device
  std::string allocator = "millrace";   ///< one of kAllocatorNames
  PipelineKind pipeline = PipelineKind::base;
  CopyMethod copy = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  bool check_races = false;  ///< on a virtual device; takes time
  /** Records all that is done on the device, which it stops before; it has the device, the
   * allocator and the strategy in its notes. */
  Timeline* timeline = nullptr;
};

/** @brief Where the device memory of a run went. */
struct TrainingAccounting {
  MemoryGauges bytes;  ///< peaks of the whole run
  MemoryCounters counts;
  Ladder ladder;               ///< of the newest allocations; `reserved` is that of the whole run
  bool whole_ladder = true;    ///< these are all allocations
  UsableBytes usable_by_main;  ///< now; not known with the driver's pool
  std::map<StreamId, std::string> streams;
  /** Nothing where they were not looked for. */
  std::optional<std::vector<std::string>> races;
};

/** @brief A device that is there already, one of several that train together. */
struct TrainingPlace {
  Device& device;
  Executor& executor;
  CheckingObserver* checking = nullptr;  ///< attached to it; in place of `check_races`
};

/**
 * @brief What a run of training stands on: a device (virtual with host kernels, or a GPU), streams,
 *        and allocators whose decisions are accounted for. One thread, and host actors of its
 *        executor. Outlives everything that is made with it.
 */
class TrainingDevice {
 public:
  /** @throws std::invalid_argument for a device or an allocator that there is not; DeviceError */
  explicit TrainingDevice(const TrainingOptions& options);
  /** @brief On a device of the caller's, who attaches timelines to it. */
  TrainingDevice(const TrainingOptions& options, const TrainingPlace& place);
  ~TrainingDevice();

  [[nodiscard]] const TrainingOptions& options() const noexcept;
  [[nodiscard]] Executor& executor() noexcept;
  [[nodiscard]] OrderedDevice& ordered() noexcept;  ///< for process groups
  [[nodiscard]] PinnedStaging staging() noexcept;   ///< for sources of batches
  [[nodiscard]] PipelineStreams& streams() noexcept;
  [[nodiscard]] Allocator& memory() noexcept;   ///< of device memory
  [[nodiscard]] Allocator& batches() noexcept;  ///< of the batches there

  /** @brief To be called in each step, while its memory is held. */
  void sample();
  [[nodiscard]] TrainingAccounting accounting();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace millrace
