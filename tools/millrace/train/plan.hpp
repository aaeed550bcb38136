#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/pipeline/model/model_description.hpp"
#include "millrace/pipeline/sharding/sharding_plan.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/** @brief The decisions made before the first step. */
struct TrainPlan {
  ModelDescription model;
  std::size_t batch_size = 0;  ///< examples of all ranks
  std::uint64_t seed = 0;
  std::string tested_on;
  std::optional<std::uint64_t> examples, test_examples;
  std::size_t tables = 0, table_rows = 0, parameters = 0;
  BatchPosition from;              ///< the checkpoint's position, or the beginning
  std::uint64_t steps = 0;         ///< steps that the checkpoint has done
  std::size_t begins_anew = 0;     ///< tables whose optimizer state is not in the checkpoint
  std::string group;               ///< "threads", "mpi", "nccl"; "" for one rank
  ShardingPlan sharding;           ///< empty without a group
  std::string sharding_json;       ///< `sharding` as JSON
  std::uint64_t stream_epoch = 0;  ///< epoch of the streamed rows; 0 if none are streamed
};

/**
 * @brief Opens the checkpoint of --load.
 * @return nullptr if the run does not start from a checkpoint
 * @throws UsageError if the file cannot be read, or if the file of --save cannot be written
 */
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(const TrainOptions& options);
/**
 * @brief Takes model, seed and batch size from the options or from the checkpoint.
 * @throws UsageError if the two disagree
 */
[[nodiscard]] TrainPlan plan_of(const TrainOptions& options, const Checkpoint* checkpoint);
/** @throws UsageError if the model does not fit the data */
[[nodiscard]] SparseNNConfig config_of(const TrainPlan& plan, const InputSchema& schema);
/**
 * @brief Places the tables on ranks.
 *
 * "auto" lets the planner choose. It may choose data-parallel tables only if the dense optimizer
 * updates a table exactly as the table optimizer does, because then the result equals that of one
 * rank.
 * @throws UsageError if the model cannot be sharded that way
 */
[[nodiscard]] ShardingPlan sharding_of(const RankOptions& options, const SparseNNConfig& config,
                                       unsigned ranks);

}  // namespace millrace::cli
