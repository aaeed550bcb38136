#include "train/preparation.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/checkpoint_error.hpp"
#include "cli/error.hpp"
#include "train/text.hpp"

namespace millrace::cli {

void check_agreement(ProcessGroup& group, const TrainOptions& options, const TrainPlan& plan,
                     const std::string& data) {
  const std::string all =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {}", plan.model.to_json(), data,
                  plan.sharding_json, plan.seed, plan.batch_size, plan.steps, options.epochs,
                  options.steps.value_or(0), options.save_every.value_or(0),
                  fmt::format("{} {} {}", options.save.has_value(), options.evaluate_only,
                              static_cast<int>(options.training.pipeline)),
                  to_string(options.stream));
  // A hash is enough to find a difference, and it fits into one exchange of sizes.
  const auto own = static_cast<std::int64_t>(std::hash<std::string>{}(all));
  const ExchangedSizes received =
      group.exchange_sizes(RankState::ok, std::vector<std::int64_t>(group.size(), own));
  for (std::size_t rank = 1; rank < received.values.size(); ++rank) {
    if (received.values[rank] == received.values[0]) continue;
    throw UsageError{
        fmt::format("rank {} was given other options or data than rank 0", rank), "",
        "the same model, data, seed, batches, sharding, steps and streams for every rank"};
  }
}

std::size_t restore(Trainer& trainer, const Checkpoint& checkpoint, const TrainOptions& options,
                    const std::string& data) {
  if (checkpoint.header().data != data) {
    throw UsageError{fmt::format("{}: the checkpoint was trained on data with other features",
                                 options.load->string()),
                     "--load",
                     fmt::format("the same data; its features are: {}", checkpoint.header().data)};
  }
  try {
    return trainer.restore(checkpoint);
  } catch (const CheckpointError& error) {
    throw refused_checkpoint(error, "--load");
  }
}

void complete_plan(TrainPlan& plan, const TrainData& data, const SparseNNConfig& config,
                   const Trainer& trainer) {
  plan.tested_on = data.tested_on;
  plan.examples = data.examples;
  plan.test_examples = data.test_examples;
  for (const auto* tables : {&config.tables, &config.weighted_tables}) {
    plan.tables += tables->size();
    for (const TableConfig& table : *tables) {
      plan.table_rows += table.rows;
      plan.parameters += table.rows * table.width;
    }
  }
  plan.parameters += trainer.dense_parameters();
}

CacheCounts cache_counts_of(Trainer& trainer) {
  CacheCounts all;
  for (EmbeddingBags* bags : {&trainer.model().bags(), &trainer.model().weighted_bags()}) {
    const CacheCounts counts = bags->cache_counts(trainer.context().main());
    all.hits += counts.hits;
    all.loads += counts.loads;
    all.write_backs += counts.write_backs;
    all.unplaced += counts.unplaced;
  }
  return all;
}

}  // namespace millrace::cli
