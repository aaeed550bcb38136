#include "train/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/run_options.hpp"
#include "cli/without_effect.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "train/find_data.hpp"
#include "train/read_ranks.hpp"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kMostBatches = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kMostBatch = 1 << 24;
constexpr Nanoseconds kLongestWait = std::chrono::seconds{240};  ///< for a rank that still streams

LookupOptions read_lookup(const TrainArguments& given, PipelineKind pipeline) {
  constexpr auto trait = &PipelineTraits::lookup_options;
  refuse_without_trait(trait, {pipeline}, "--lookup-position", given.lookup_position.has_value());
  refuse_without_trait(trait, {pipeline}, "--lookup-stream", given.lookup_stream.has_value());
  refuse_without_trait(trait, {pipeline}, "--order-lookup-after-dense",
                       given.order_lookup_after_dense);
  LookupOptions options{.order_after_dense = given.order_lookup_after_dense};
  if (given.lookup_position) {
    options.position = read_choice("--lookup-position", "lookup position", *given.lookup_position,
                                   kLookupPositions);
  }
  if (given.lookup_stream) {
    options.stream =
        read_choice("--lookup-stream", "lookup stream", *given.lookup_stream, kLookupStreams);
  }
  if (options.order_after_dense && options.position == LookupPosition::before_optimizer) {
    throw UsageError{"a lookup before the optimizer cannot be ordered after it",
                     "--order-lookup-after-dense",
                     "--lookup-position after-optimizer or after-data-dist"};
  }
  return options;
}

StaleOptions read_staleness(const TrainArguments& given, PipelineKind pipeline) {
  constexpr auto trait = &PipelineTraits::stale;
  refuse_without_trait(trait, {pipeline}, "--start-batch", given.start_batch.has_value());
  refuse_without_trait(trait, {pipeline}, "--stash-gradients", given.stash_gradients);
  StaleOptions options{.stash_gradients = given.stash_gradients};
  if (given.start_batch) {
    options.start_batch = read_whole("--start-batch", *given.start_batch, 0, kMostBatches);
  }
  return options;
}

TrainingOptions read_training(const TrainArguments& given, const RankOptions& ranks) {
  TrainingOptions options;
  options.pipeline = read_choice("--pipeline", "pipeline", given.pipeline, kPipelineKinds);
  options.copy = read_choice("--copy", "copy strategy", given.copy, kCopyMethods);
  options.waits = read_choice("--waits", "wait mode", given.waits, kWaits);
  options.lookup = read_lookup(given, options.pipeline);
  options.stale = read_staleness(given, options.pipeline);
  options.savers = {given.free_batch_early, given.clear_exchanged, given.free_features_early};
  if (given.copies_ahead)
    options.copies_ahead = read_whole("--copies-ahead", *given.copies_ahead, 0, 1000);
  options.allocator = read_name("--allocator", "allocator", given.allocator,
                                {kAllocatorNames.begin(), kAllocatorNames.end()});
  options.check_races = given.check_races;
  options.device = read_device(device_name(given, ranks), {kLocalDevice}).name;
  return options;
}

void refuse_idle(const TrainArguments& given) {
  const auto refuse = [&](std::string_view option, bool set) {
    refuse_without_effect(option, given.evaluate_only && set, "--eval does not train",
                          "without --eval");
  };
  refuse("--epochs", given.epochs.has_value());
  refuse("--steps", given.steps.has_value());
  refuse("--freeze-tables", given.freeze_tables);
  refuse("--start-batch", given.start_batch.has_value());
  refuse("--stash-gradients", given.stash_gradients);
}

void check_stream(const TrainOptions& options) {
  const StreamOptions& stream = options.stream;
  if (stream.sinks.empty()) return;
  if (options.evaluate_only || options.freeze_tables) {
    throw UsageError{"no table is trained, so there are no changed rows to stream", "--stream",
                     "neither --eval nor --freeze-tables"};
  }
  const bool processes =
      options.ranks.group == GroupKind::mpi || options.ranks.group == GroupKind::nccl;
  if (options.ranks.group != GroupKind::none && stream.deadline > kLongestWait) {
    throw UsageError{"other ranks do not wait that long for a rank that still streams",
                     "--stream-deadline", "at most 240 s with several ranks"};
  }
  for (const std::string& sink : stream.sinks) {
    const SinkKind* kind = find_sink_kind(sink);
    if (!processes || kind == nullptr || !kind->one_process) continue;
    throw UsageError{fmt::format("only one process at a time can write to a {} sink, and here each "
                                 "rank is a process",
                                 kind->name),
                     "--stream", "a sink that several processes can write to, such as file:DIR"};
  }
}

std::optional<std::uint64_t> read_count(std::string_view option,
                                        const std::optional<std::string>& text,
                                        std::uint64_t most = kMostBatches) {
  if (!text) return std::nullopt;
  return read_whole(option, *text, 1, most);
}

}  // namespace

TrainOptions read_options(const TrainArguments& given) {
  TrainOptions options;
  options.ranks = read_ranks(given);
  options.training = read_training(given, options.ranks);
  options.cache = read_cache({given.cache_load_factor, given.cache_policy},
                             traits_of(options.training.pipeline).for_cached_tables);
  options.data = find_data(given);
  options.model = given.model;
  options.epochs = read_whole("--epochs", given.epochs.value_or("3"), 0, 1'000'000);
  options.steps = read_count("--steps", given.steps);
  options.save_every = read_count("--save-every", given.save_every);
  options.batch_size = read_count("--batch-size", given.batch_size, kMostBatch);
  if (given.seed) {
    options.seed = read_whole("--seed", *given.seed, 0, std::numeric_limits<std::uint64_t>::max());
  }
  options.save = given.save;
  options.load = given.load;
  options.evaluate_only = given.evaluate_only;
  options.freeze_tables = given.freeze_tables;
  refuse_idle(given);
  refuse_without_effect(
      "--check-races",
      options.training.check_races && !options.training.device.starts_with("virtual:"),
      "accesses on a GPU cannot be observed", "a virtual device");
  options.stream = read_stream(given.stream);
  check_stream(options);
  if (options.evaluate_only && options.save) {
    throw UsageError{"--eval does not train, so nothing changes that could be saved", "--save",
                     "one of the two"};
  }
  if (options.evaluate_only && !options.load) {
    throw UsageError{"no checkpoint to test", "--eval", "--load FILE as well"};
  }
  if (options.save_every && !options.save) {
    throw UsageError{"no file to save to", "--save-every", "--save FILE as well"};
  }
  return options;
}

}  // namespace millrace::cli
