#pragma once

#include <optional>
#include <string>

#include "millrace/pipeline/schedule/trainer.hpp"
#include "train/data.hpp"
#include "train/plan.hpp"

namespace millrace::cli {

/**
 * @brief Compares the options of all ranks, as processes may have been started with different ones.
 * @param data  the features of the data, in words
 * @throws UsageError if they differ
 */
void check_agreement(ProcessGroup& group, const TrainOptions& options, const TrainPlan& plan,
                     const std::string& data);

/**
 * @brief Gives the model what the checkpoint has.
 * @return tables whose optimizer state the checkpoint does not have
 * @throws UsageError if it is of other data, or does not fit
 */
[[nodiscard]] std::size_t restore(Trainer& trainer, const Checkpoint& checkpoint,
                                  const TrainOptions& options, const std::string& data);

/** @brief Adds the sizes of the data and of the model. */
void complete_plan(TrainPlan& plan, const TrainData& data, const SparseNNConfig& config,
                   const Trainer& trainer);

/** @brief What the caches of all tables did. */
[[nodiscard]] CacheCounts cache_counts_of(Trainer& trainer);

}  // namespace millrace::cli
