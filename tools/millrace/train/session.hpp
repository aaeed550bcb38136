#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/data/malformed_lines.hpp"
#include "millrace/pipeline/model/model_description.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/** @brief What is known before the first step. */
struct TrainPlan {
  ModelDescription model;
  std::size_t batch_size = 0;
  std::uint64_t seed = 0;
  std::string tested_on;
  std::optional<std::uint64_t> examples, test_examples;
  std::size_t tables = 0, table_rows = 0, parameters = 0;
  BatchPosition from;       ///< of a checkpoint, or the beginning
  std::uint64_t steps = 0;  ///< done before
};

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
  bool interrupted = false, saved = false;
  MalformedLines malformed;
  TrainingAccounting accounting;
};

/** @brief Told as a run goes on; the calling thread's. */
struct TrainListener {
  std::function<void(const TrainPlan&)> planned;
  std::function<void(const EpochResult&)> epoch_ended;
};

/**
 * @brief Trains, evaluates, loads and saves as the options say.
 * @throws UsageError; as the data, the model and the device
 */
[[nodiscard]] TrainResult run_training(const TrainOptions& options, const TrainListener& listener);

}  // namespace millrace::cli
