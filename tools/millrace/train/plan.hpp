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

/** @brief What is known before the first step. */
struct TrainPlan {
  ModelDescription model;
  std::size_t batch_size = 0;  ///< of all ranks
  std::uint64_t seed = 0;
  std::string tested_on;
  std::optional<std::uint64_t> examples, test_examples;
  std::size_t tables = 0, table_rows = 0, parameters = 0;
  BatchPosition from;              ///< of a checkpoint, or the beginning
  std::uint64_t steps = 0;         ///< done before
  std::size_t begins_anew = 0;     ///< tables whose optimizer state the checkpoint does not have
  std::string group;               ///< "threads", "mpi", "nccl"; "": there is one rank
  ShardingPlan sharding;           ///< with a group
  std::string sharding_json;       ///< the same
  std::uint64_t stream_epoch = 0;  ///< of the rows that are streamed; 0: none are
};

/** @brief Null if there is none to go on from. @throws UsageError; also if --save can not be */
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(const TrainOptions& options);
/** @brief Model, seed and batch size, by the options or by the checkpoint. @throws UsageError if
 *         they disagree */
[[nodiscard]] TrainPlan plan_of(const TrainOptions& options, const Checkpoint* checkpoint);
/** @throws UsageError if the model is not of these data */
[[nodiscard]] SparseNNConfig config_of(const TrainPlan& plan, const InputSchema& schema);
/**
 * @brief Where the tables are. "auto" is the planner's choice, with data-parallel tables where that
 *        trains what one rank does: the dense optimizer is the tables'.
 * @throws UsageError if the model can not be so
 */
[[nodiscard]] ShardingPlan sharding_of(const RankOptions& options, const SparseNNConfig& config,
                                       unsigned ranks);

}  // namespace millrace::cli
