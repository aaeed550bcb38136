#include "train/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/checkpoint_error.hpp"
#include "cli/error.hpp"
#include "cli/suggestions.hpp"
#include "train/data.hpp"

namespace millrace::cli {
namespace {

ModelDescription read_model(const std::string& given) {
  const std::vector<std::string> names = ModelDescription::names();
  const bool ships = std::find(names.begin(), names.end(), given) != names.end();
  try {
    return ships ? ModelDescription::named(given) : ModelDescription::load(given);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--model",
                     did_you_mean(given, names,
                                  fmt::format("a JSON file as docs/train.md says, or one of {}",
                                              fmt::join(names, ", ")))};
  }
}

ModelDescription model_of(const TrainOptions& options, const Checkpoint* checkpoint) {
  ModelDescription model;
  if (options.model) {
    model = read_model(*options.model);
  } else if (checkpoint != nullptr) {
    model = ModelDescription::parse(checkpoint->header().model, "the checkpoint's model");
  } else {
    model = ModelDescription::named(options.data.name);
  }
  if (options.freeze_tables) model.table_optimizer.kind = OptimizerKind::none;
  return model;
}

template <typename Value>
void compare(std::string_view option, const std::optional<Value>& given, Value saved) {
  if (!given || *given == saved) return;
  throw UsageError{
      fmt::format("the checkpoint is of a run with {} {}, not {}", option.substr(2), saved, *given),
      std::string{option}, fmt::format("{} {}, or leave it out", option, saved)};
}

void check_same_run(const TrainOptions& options, const ModelDescription& model,
                    const CheckpointHeader& saved) {
  const ModelDescription known = ModelDescription::parse(saved.model, "the checkpoint's model");
  if (const std::string other = difference(known, model); !other.empty()) {
    throw UsageError{fmt::format("{}: the checkpoint is of another model: its {}",
                                 options.load->string(), other),
                     "--load", "no --model: the checkpoint has it"};
  }
  compare("--seed", options.seed, saved.seed);
  compare("--batch-size", options.batch_size, saved.batch_size);
}

/** Whether the dense optimizer updates a table exactly as the table optimizer does. */
bool one_optimizer(const SparseNNConfig& config) {
  const Optimizer &tables = config.table_optimizer, &dense = config.dense_optimizer;
  if (tables.kind == OptimizerKind::none) return true;
  return tables.kind == dense.kind && !traits_of(tables.kind).moves_without_gradient &&
         tables.learning_rate == dense.learning_rate && tables.epsilon == dense.epsilon;
}

ShardingPlan planned(const RankOptions& options, const SparseNNConfig& config, unsigned ranks) {
  if (options.sharding != "auto") {
    return plan_alike(config, ranks, parse_sharding(options.sharding));
  }
  PlannerOptions planner;
  if (!one_optimizer(config)) planner.data_parallel_bytes = 0;
  return plan_sharding(config, ranks, planner);
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const TrainOptions& options) {
  const char* option = "--save";
  try {
    // A file that cannot be written must be refused before the training.
    if (options.save) check_checkpoint_place(*options.save);
    option = "--load";
    return options.load ? std::make_unique<Checkpoint>(*options.load) : nullptr;
  } catch (const CheckpointError& error) {
    throw refused_checkpoint(error, option);
  }
}

TrainPlan plan_of(const TrainOptions& options, const Checkpoint* checkpoint) {
  TrainPlan plan;
  plan.model = model_of(options, checkpoint);
  plan.seed = options.seed.value_or(1);
  plan.batch_size = options.batch_size.value_or(usual_batch_size(options.data.kind));
  if (checkpoint == nullptr) return plan;
  const CheckpointHeader& saved = checkpoint->header();
  check_same_run(options, plan.model, saved);
  plan.seed = saved.seed;
  plan.batch_size = saved.batch_size;
  plan.from = saved.position;
  plan.steps = saved.steps;
  return plan;
}

SparseNNConfig config_of(const TrainPlan& plan, const InputSchema& schema) {
  try {
    return plan.model.config(schema, plan.seed);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--model", "names of tables and features that the data have"};
  }
}

ShardingPlan sharding_of(const RankOptions& options, const SparseNNConfig& config, unsigned ranks) {
  try {
    ShardingPlan plan = planned(options, config, ranks);
    if (options.plan) {
      plan = load_sharding_plan(*options.plan, config, plan);
    }
    plan.check(config);
    return plan;
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--sharding", "a plan that fits, as docs/sharding.md says"};
  }
}

}  // namespace millrace::cli
