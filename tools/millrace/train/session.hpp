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

/** @brief How far a run is. */
struct EpochProgress {
  std::uint64_t epoch = 0, epochs = 0;  ///< from 1; in all
  std::uint64_t step = 0;               ///< done of the epoch
  std::optional<std::uint64_t> steps;   ///< of it; of a file that is read first, what is expected
  double examples_per_second = 0;
  std::optional<double> seconds_left;  ///< of the run, its tests from the second epoch on
};

struct TrainResult {
  TrainPlan plan;
  std::vector<EpochResult> epochs;  ///< that something was done in
  std::optional<Evaluation> final;
  std::uint64_t steps = 0;
  BatchPosition position;
  std::string digest;
  std::optional<CacheCounts> cache;  ///< of cached tables, tests included
  bool interrupted = false, saved = false;
  MalformedLines malformed;
  TrainingAccounting accounting;          ///< of this rank
  std::vector<RankMemory> ranks;          ///< with a group: of all
  std::optional<StreamingReport> stream;  ///< of this rank
  bool stream_complete = true;            ///< on all ranks
};

/** @brief How many of this run's steps semi-sync made from its `start_batch` on; nothing for other
 *         pipelines. */
[[nodiscard]] std::optional<std::uint64_t> stale_steps(const TrainOptions& options,
                                                       const TrainResult& result);

/** @brief Told as a run goes on; the calling thread's. */
struct TrainListener {
  std::function<void(const TrainPlan&)> planned;
  std::function<void(const EpochResult&)> epoch_ended;
};

/** @brief Where a rank trains. All of it outlives the run. */
struct SessionPlace {
  TrainingDevice& device;
  ProcessGroup* group = nullptr;  ///< null: there is one rank
  const Interrupt& interrupt;
  std::vector<std::shared_ptr<Sink>> sinks{};  ///< of changed rows; shared by ranks of a process
};

/**
 * @brief Trains, evaluates, loads and saves as the options say. Of several ranks each calls it;
 * rank 0 writes the checkpoint, and has the digest.
 * @throws UsageError; as the data, the model, the device and the group
 */
[[nodiscard]] TrainResult run_training(const TrainOptions& options, const SessionPlace& place,
                                       const TrainListener& listener);

}  // namespace millrace::cli
