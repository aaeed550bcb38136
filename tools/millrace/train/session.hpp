#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/data/malformed_lines.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"
#include "millrace/streamer/row_streamer.hpp"
#include "train/interrupt.hpp"
#include "train/plan.hpp"
#include "train/rank_memory.hpp"

namespace millrace::cli {

struct EpochResult {
  std::uint64_t epoch = 0;  ///< number of the epoch, from 1
  TrainingProgress trained;
  double seconds = 0;  ///< training time, without the test
  std::optional<Evaluation> tested;
  [[nodiscard]] double examples_per_second() const {
    return seconds > 0 ? static_cast<double>(trained.examples) / seconds : 0;
  }
};

/** @brief Progress of a run. */
struct EpochProgress {
  std::uint64_t epoch = 0, epochs = 0;  ///< the current epoch, from 1, and the number of epochs
  std::uint64_t step = 0;               ///< steps done in this epoch
  std::optional<std::uint64_t> steps;   ///< steps in this epoch; an estimate for a new file
  double examples_per_second = 0;
  std::optional<double> seconds_left;  ///< of the run, with tests from the second epoch on
};

struct TrainResult {
  TrainPlan plan;
  std::vector<EpochResult> epochs;  ///< epochs with at least one step
  std::optional<Evaluation> final;
  std::uint64_t steps = 0;
  BatchPosition position;
  std::string digest;
  std::optional<CacheCounts> cache;  ///< if tables are cached; it includes the lookups of tests
  bool interrupted = false, saved = false;
  MalformedLines malformed;
  TrainingAccounting accounting;          ///< of this rank
  std::vector<RankMemory> ranks;          ///< of all ranks; empty without a group
  std::optional<StreamingReport> stream;  ///< of this rank
  bool stream_complete = true;            ///< the same on all ranks
};

/**
 * @brief Number of steps of this run that were made from `start_batch` on.
 * @return std::nullopt for pipelines whose lookups are never stale
 */
[[nodiscard]] std::optional<std::uint64_t> stale_steps(const TrainOptions& options,
                                                       const TrainResult& result);

/** @brief Functions that `run_training` calls during a run, on its own thread. */
struct TrainListener {
  std::function<void(const TrainPlan&)> planned;
  std::function<void(const EpochResult&)> epoch_ended;
  /// Called with the number of steps so far, which includes steps made before the loaded
  /// checkpoint. The first call comes before the first step. May be empty.
  std::function<void(std::uint64_t)> steps_done{};
};

/** @brief The resources of one rank. They must outlive the run. */
struct SessionEnvironment {
  TrainingDevice& device;
  ProcessGroup* group = nullptr;  ///< nullptr: the only rank
  const Interrupt& interrupt;
  std::vector<std::shared_ptr<Sink>> sinks{};  ///< for changed rows; shared by a process's ranks
};

/**
 * @brief Trains, evaluates, loads and saves according to the options.
 *
 * With several ranks, each rank calls it. Rank 0 writes the checkpoint, and only its result has the
 * digest.
 * @throws UsageError  if the options do not fit the data or the checkpoint
 * @throws the exceptions of the data, the model, the device and the group
 */
[[nodiscard]] TrainResult run_training(const TrainOptions& options,
                                       const SessionEnvironment& environment,
                                       const TrainListener& listener);

}  // namespace millrace::cli
