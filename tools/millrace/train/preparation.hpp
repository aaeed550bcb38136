#pragma once

#include <optional>
#include <string>

#include "millrace/pipeline/schedule/trainer.hpp"
#include "train/data.hpp"
#include "train/plan.hpp"

namespace millrace::cli {

/**
 * @brief Compares the options of all ranks. Processes may have been started with different options.
 * @param data  description of the features of the data
 * @throws UsageError if the options differ
 */
void check_agreement(ProcessGroup& group, const TrainOptions& options, const TrainPlan& plan,
                     const std::string& data);

/**
 * @brief Loads the checkpoint into the model.
 * @return number of tables whose optimizer state is not in the checkpoint
 * @throws UsageError if the checkpoint was trained on other features, or does not fit the model
 */
[[nodiscard]] std::size_t restore(Trainer& trainer, const Checkpoint& checkpoint,
                                  const TrainOptions& options, const std::string& data);

/** @brief Adds the sizes of the data and of the model to the plan. */
void complete_plan(TrainPlan& plan, const TrainData& data, const SparseNNConfig& config,
                   const Trainer& trainer);

/** @brief The cache counts of all tables together. */
[[nodiscard]] CacheCounts cache_counts_of(Trainer& trainer);

}  // namespace millrace::cli
