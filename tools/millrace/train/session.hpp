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
  std::uint64_t epoch = 0;  ///< from 1
  TrainingProgress trained;
  double seconds = 0;  ///< of training
  std::optional<Evaluation> tested;
  [[nodiscard]] double examples_per_second() const {
    return seconds > 0 ? static_cast<double>(trained.examples) / seconds : 0;
  }
};

/** @brief How far a run has come. */
struct EpochProgress {
  std::uint64_t epoch = 0, epochs = 0;  ///< the current one, from 1, and their number
  std::uint64_t step = 0;               ///< steps done in this epoch
  std::optional<std::uint64_t> steps;   ///< steps in this epoch; expected, if the file is new
  double examples_per_second = 0;
  std::optional<double> seconds_left;  ///< of the run; includes tests from the second epoch on
};

struct TrainResult {
  TrainPlan plan;
  std::vector<EpochResult> epochs;  ///< those with at least one step
  std::optional<Evaluation> final;
  std::uint64_t steps = 0;
  BatchPosition position;
  std::string digest;
  std::optional<CacheCounts> cache;  ///< if tables are cached; includes tests
  bool interrupted = false, saved = false;
  MalformedLines malformed;
  TrainingAccounting accounting;          ///< of this rank
  std::vector<RankMemory> ranks;          ///< of all ranks; empty without a group
  std::optional<StreamingReport> stream;  ///< of this rank
  bool stream_complete = true;            ///< the same on all ranks
};

/** @brief How many steps of this run were made from `start_batch` on.
 *  @return nothing for pipelines whose lookups are never stale */
[[nodiscard]] std::optional<std::uint64_t> stale_steps(const TrainOptions& options,
                                                       const TrainResult& result);

/** @brief Functions that `train` calls as a run goes on, on its own thread. */
struct TrainListener {
  std::function<void(const TrainPlan&)> planned;
  std::function<void(const EpochResult&)> epoch_ended;
  /// Steps were made: how many the run has had, those before a checkpoint that it continues
  /// included. Once before the first one, too. May be empty.
  std::function<void(std::uint64_t)> steps_done{};
};

/** @brief The resources of one rank. All of them have to outlive the run. */
struct SessionEnvironment {
  TrainingDevice& device;
  ProcessGroup* group = nullptr;  ///< nullptr: there is one rank
  const Interrupt& interrupt;
  std::vector<std::shared_ptr<Sink>> sinks{};  ///< for changed rows; a process's ranks share them
};

/**
 * @brief Trains, evaluates, loads and saves as the options say.
 *
 * With several ranks each rank calls it. Rank 0 writes the checkpoint, and only its result has the
 * digest.
 * @throws UsageError  for options that do not fit the data or the checkpoint
 * @throws what the data, the model, the device and the group throw
 */
[[nodiscard]] TrainResult run_training(const TrainOptions& options,
                                       const SessionEnvironment& environment,
                                       const TrainListener& listener);

}  // namespace millrace::cli
