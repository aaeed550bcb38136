#include "cli/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/error.hpp"
#include "cli/fitted.hpp"
#include "cli/json_text.hpp"
#include "cli/output.hpp"
#include "cli/run_options.hpp"
#include "cli/standard_output.hpp"
#include "cli/text.hpp"
#include "cli/timeline.hpp"
#include "commands.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "stream/sink_files.hpp"
#include "train/exit_code.hpp"
#include "train/find_data.hpp"
#include "train/interrupt.hpp"
#include "train/json.hpp"
#include "train/options.hpp"
#include "train/ranks.hpp"
#include "train/read_ranks.hpp"
#include "train/session.hpp"
#include "train/text.hpp"

namespace millrace::cli {
namespace {

void note_plan(Timeline& timeline, const TrainOptions& options, const TrainPlan& plan) {
  timeline.note("program", "millrace train");
  timeline.note("data", options.data.name);
  timeline.note("loop", millrace::to_string(options.training.pipeline));
  timeline.note("waits", to_string(options.training.waits));
  timeline.note("batch size", std::to_string(plan.batch_size));
  timeline.note("seed", std::to_string(plan.seed));
  timeline.note("from step", std::to_string(plan.steps));
}

void run_train_command(const TrainArguments& given) {
  TrainOptions options = read_options(given);
  std::optional<Output> document, timeline_file;
  if (given.json) document.emplace(given.json, "--json");
  if (given.timeline) timeline_file.emplace(given.timeline, "--timeline");
  const bool text = !document || !document->to_stdout();
  const Interrupt interrupt;
  RankJob job{options.ranks};
  const bool first = job.rank() == 0;
  std::optional<Timeline> timeline;
  if (timeline_file && first) options.training.timeline = &timeline.emplace();
  const Painter paint{colours_on_stdout()};
  const auto say = [&](const std::string& words) {
    if (text) print(fitted(words));
  };
  const TrainListener tells{
      .planned =
          [&](const TrainPlan& plan) {
            if (timeline) note_plan(*timeline, options, plan);
            say(render_plan(options, plan, paint));
          },
      .epoch_ended = [&](const EpochResult& epoch) { say(render_epoch(epoch)); }};
  const TrainListener silent{.planned = [](const auto&) {}, .epoch_ended = [](const auto&) {}};

  const auto sinks = open_sinks(options.stream);  // shared by the ranks that are here
  TrainResult result;
  job.run(options.training, [&](TrainingDevice& device, ProcessGroup* group) {
    const bool speaks = group == nullptr || group->rank() == 0;
    TrainResult of_rank =
        run_training(options, {device, group, interrupt, sinks}, speaks ? tells : silent);
    if (speaks || !first) result = std::move(of_rank);
  });
  if (first) {
    say(render_end(options, result, paint));
    if (timeline) {
      write_timeline(*timeline, *timeline_file);
      say(render_timeline(*given.timeline, *timeline));
    }
    if (document) document->write(json_text(to_document(options, result)));
  }
  if (const int code = exit_code_of(result, interrupt.exit_code()); code != 0) throw Ended{code};
}

/** The stream of changed rows. */
void add_stream_options(Command& command, StreamArguments& given) {
  command.output("--stream", given.sinks, "SINK",
                 fmt::format("Send changed rows to a sink ({}); repeatable", sink_addresses()),
                 Result::further, sink_files);
  command.add("--stream-skip", given.skipped_tables, "TABLE",
              "Not this one, as a checkpoint names it (table.user); more than once for several");
  command.add("--stream-capture", given.capture, "WAY",
              "ring (default), ring-kernel, mapped, sync, sync-pageable");
  command.add("--stream-content", given.content, "WHAT",
              "weights (default), weights-and-state, ids");
  command.add("--stream-slots", given.slots, "N", "Of ring, at most; default 8");
  command.add("--stream-slot-bytes", given.slot_bytes, "SIZE",
              "Of each, on the device and in pinned memory; default 64MiB");
  command.add("--stream-when-full", given.when_full, "POLICY",
              "Of a step that finds no slot: block (default, 20 ms at most), mark-dirty");
  command.add("--stream-gather", given.gather, "WHERE",
              "update (default): on the update's stream; own: on one of its own");
  command.add("--stream-queue-bytes", given.queue_bytes, "SIZE",
              "Rows that wait for a sink; default 256MiB");
  command.add("--stream-queue-policy", given.queue_policy, "POLICY",
              "Of a full queue: coalesce (default), recapture, block");
  command.add("--stream-deadline", given.deadline, "SECONDS",
              "For what is left at the end; default 30");
}

}  // namespace

void add_train(CLI::App& program) {
  Command command{
      program, "train",
      "Trains a recommender model, on a virtual device or on a GPU, and says how well it "
      "predicts, how fast it went, and where its memory was"};
  const auto given = std::make_shared<TrainArguments>();
  command.input("--data", given->data, "WHAT",
                "synthetic, adult, adult:FOLDER, or a file: Criteo's TSV or UCI Adult's, .gz too",
                data_files);
  command.input("--test", given->test, "FILE",
                "Of the same kind, to test on; default the data themselves");
  command.add("--format", given->format, "KIND",
              "criteo, adult; default by the file's first lines");
  command.add("--malformed", given->malformed, "N",
              "Lines that are no examples, at most; default 100");
  command.add("--examples", given->examples, "N", "Synthetic ones, an epoch; default 32768");
  command.input("--model", given->model, "NAME|FILE",
                "adult, criteo, synthetic, or a JSON file; default the data's",
                Command::unless(ModelDescription::names()));
  command.flag("--freeze-tables", given->freeze_tables, "Train all but the embedding tables");
  command.add("--epochs", given->epochs, "N", "In all, those of a checkpoint counted; default 3");
  command.add("--steps", given->steps, "N", "Stop after so many in all");
  command.add("--batch-size", given->batch_size, "N", "Examples; default 256, of Criteo 2048");
  command.add("--seed", given->seed, "S",
              "Of the weights, the order of examples, and synthetic data; default 1");
  command.add("--pipeline", given->pipeline, "NAME",
              "base (default), sparse-dist, sparse-dist-lite, fused-sparse-dist, semi-sync, "
              "prefetch-sparse-dist");
  command.add(
      "--cache-load-factor", given->cache_load_factor, "F",
      "Tables in host memory, and this share of their rows in a cache on the device; default: "
      "tables on the device, of prefetch-sparse-dist 0.2");
  command.add("--cache-policy", given->cache_policy, "NAME", "Of that cache: lru (default), lfu");
  command.add("--lookup-position", given->lookup_position, "WHERE",
              "Of fused-sparse-dist: after-optimizer (default), before-optimizer, after-data-dist");
  command.add("--lookup-stream", given->lookup_stream, "NAME",
              "Of fused-sparse-dist: data-dist (default), own, main");
  command.flag("--order-lookup-after-dense", given->order_lookup_after_dense,
               "Of fused-sparse-dist: for models with position weights");
  command.add("--start-batch", given->start_batch, "N",
              "Of semi-sync: steps before lookups are one update stale; default 900");
  command.flag("--stash-gradients", given->stash_gradients,
               "Of semi-sync: dense gradients are one step stale, too");
  command.flag("--free-batch-early", given->free_batch_early,
               "Behind forward, not behind the step");
  command.flag("--clear-exchanged", given->clear_exchanged,
               "What an exchange sends, when it is received");
  command.flag("--free-features-early", given->free_features_early,
               "A batch's sparse features, when their exchange is received");
  command.add("--copy", given->copy, "STRATEGY",
              "side-stream (default), in-place, precise, ring, driver-async");
  command.add(
      "--waits", given->waits, "KIND",
      "coarse (default): for all that a stream has queued; precise: for the work that is needed");
  command.add("--allocator", given->allocator, "NAME", "millrace (default), torch, driver");
  command.add("--device", given->device, "NAME", device_help("h200", true) + ", cuda:local");
  command.add("--ranks", given->ranks, "N",
              "Ranks that train together, as threads with virtual devices");
  command.add("--group", given->group, "KIND",
              "threads (default), mpi (under mpirun), nccl (by torchrun's environment): one rank a "
              "process");
  command.input(
      "--sharding", given->sharding, "HOW",
      "Of the tables: auto (default), table-wise, row-wise, data-parallel, or a JSON file",
      Command::unless(sharding_names()));
  command.output("--rendezvous", given->rendezvous, "FILE",
                 "Of nccl: a new name that all see, in place of MASTER_ADDR and MASTER_PORT",
                 Result::further);
  add_stream_options(command, given->stream);
  command.output("--save", given->save, "FILE", "A checkpoint, at the end and when interrupted",
                 Result::resumed);
  command.add("--save-every", given->save_every, "N", "And each so many steps");
  command.input("--load", given->load, "FILE", "Go on from a checkpoint");
  command.flag("--eval", given->evaluate_only, "Train nothing, only test");
  command.flag("--check-races", given->check_races,
               "Check every access, on virtual devices; a run with a race ends with 4");
  command.output("--json", given->json, "FILE", "The results; - for standard output",
                 Result::in_place);
  command.output("--timeline", given->timeline, "FILE",
                 "A timeline of the run's beginning, for Perfetto and chrome://tracing",
                 Result::further);
  command.run([given] { run_train_command(*given); });
}

}  // namespace millrace::cli
