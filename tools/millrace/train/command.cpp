#include "cli/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/fitted.hpp"
#include "cli/output.hpp"
#include "cli/results.hpp"
#include "cli/run_options.hpp"
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
#include "train/trace.hpp"

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
  RunningResults results{given.results};
  std::optional<Output> timeline_file;
  if (given.timeline) timeline_file.emplace(given.timeline, "--timeline");
  std::optional<TrainTrace> trace, snapshot;
  if (given.record) trace.emplace(kRecordForm, *given.record);
  if (given.snapshot) snapshot.emplace(kSnapshotForm, *given.snapshot);
  const Interrupt interrupt;
  RankJob job{options.ranks};
  const bool first = job.rank() == 0;
  std::optional<Timeline> timeline;
  if (timeline_file && first) options.training.timeline = &timeline.emplace();
  const Painter paint = results.painter();
  const auto say = [&](const std::string& words) { results.say(fitted(words)); };
  const TrainListener tells{
      .planned =
          [&](const TrainPlan& plan) {
            if (timeline) note_plan(*timeline, options, plan);
            say(render_plan(options, plan, paint));
          },
      .epoch_ended = [&](const EpochResult& epoch) { say(render_epoch(epoch)); }};
  const TrainListener silent{.planned = [](const auto&) {}, .epoch_ended = [](const auto&) {}};

  const auto sinks = open_sinks(options.stream);  // the ranks of this process share them
  TrainResult result;
  try {
    job.run(options.training, [&](TrainingDevice& device, ProcessGroup* group) {
      const bool speaks = group == nullptr || group->rank() == 0;
      const bool watched = speaks && first;
      const TrainTrace::Watch watch{watched && trace ? &*trace : nullptr, device};
      TrainTrace::Watch shot{watched && snapshot ? &*snapshot : nullptr, device};
      TrainListener listener = speaks ? tells : silent;
      if (watched && snapshot)
        listener.steps_done = [&shot](std::uint64_t steps) { shot.steps_done(steps); };
      TrainResult of_rank = run_training(options, {device, group, interrupt, sinks}, listener);
      if (speaks || !first) result = std::move(of_rank);
    });
  } catch (...) {
    if (trace && first) trace->write_after_error();
    if (snapshot && first) snapshot->write_after_error();
    throw;
  }
  if (first) {
    if (trace) trace->write();
    if (snapshot) snapshot->write();
    say(render_end(options, result, paint));
    if (timeline) {
      write_timeline(*timeline, *timeline_file);
      say(render_timeline(*given.timeline, *timeline));
    }
    results.finish([&] { return to_document(options, result); });
  }
  if (const int code = exit_code_of(result, interrupt.exit_code()); code != 0) throw Ended{code};
}

/** Options about the stream of changed rows. */
void add_stream_options(Command& command, StreamArguments& given) {
  command.heading("Streaming");
  command.output("--stream", given.sinks, "SINK",
                 fmt::format("Send changed rows to a sink ({}); repeatable", sink_addresses()),
                 Result::further, sink_files);
  command.add("--stream-skip", given.skipped_tables, "TABLE",
              "Do not stream this table (checkpoint name, e.g. table.user); repeatable");
  command.add(
      "--stream-capture", given.capture, "WAY",
      "Bring rows to the host in this way: " + choices_text(kCaptureModes, CaptureOptions{}.mode));
  command.add("--stream-content", given.content, "WHAT",
              "Send this part of a row: " + choices_text(kRowContents, CaptureOptions{}.content));
  command.add("--stream-slots", given.slots, "N", "Use at most N slots for ring (default 8)");
  command.add("--stream-slot-bytes", given.slot_bytes, "SIZE",
              "Set the size of a slot, on the device and in pinned memory (default 64MiB)");
  command.add("--stream-when-full", given.when_full, "POLICY",
              fmt::format("Do this if a step finds no free slot: {}; block waits at most 20 ms",
                          choices_text(kWhenFull, CaptureOptions{}.when_full)));
  command.add("--stream-gather", given.gather, "WHERE",
              "Gather changed rows on the update's stream, or on one of its own: " +
                  choices_text(kGatherOn, CaptureOptions{}.gather_on));
  command.add("--stream-queue-bytes", given.queue_bytes, "SIZE",
              "Let at most this many bytes of rows wait for a sink (default 256MiB)");
  command.add("--stream-queue-policy", given.queue_policy, "POLICY",
              "Do this if that queue is full: " +
                  choices_text(kQueuePolicies, ShippingOptions{}.when_full));
  command.add("--stream-deadline", given.deadline, "SECONDS",
              "Deliver remaining rows for at most this long at the end of the run (default 30)");
}

/** Options about the training data. */
void add_data_options(Command& command, TrainArguments& given) {
  command.heading("Data");
  command.input("--data", given.data, "WHAT",
                "Train on this data: synthetic, adult, adult:FOLDER, or a file in the format of "
                "Criteo or UCI Adult, plain or gzip",
                data_files);
  command.input("--test", given.test, "FILE",
                "Test on this data, in the same format (default: the training data)");
  command.add(
      "--data-format", given.format, "KIND",
      "Read the file in this format: criteo, adult (default: detected from the first lines)");
  command.add("--malformed", given.malformed, "N", "Skip at most N malformed lines (default 100)");
  command.add("--examples", given.examples, "N",
              "Make N synthetic examples per epoch (default 32768)");
}

/** Options about the model, the length of training, and the checkpoints. */
void add_model_options(Command& command, TrainArguments& given) {
  command.heading("Training");
  command.input("--model", given.model, "NAME|FILE",
                fmt::format("Train this model: {}, or a JSON file (default: the model of the data)",
                            fmt::join(ModelDescription::names(), ", ")),
                Command::unless(ModelDescription::names()));
  command.input("--load", given.load, "FILE", "Continue from a checkpoint");
  command.add("--epochs", given.epochs, "N",
              "Train N epochs in total, including those of a loaded checkpoint (default 3)");
  command.add("--steps", given.steps, "N", "Stop after N steps in total");
  command.add("--batch-size", given.batch_size, "N",
              "Put N examples into a batch (default 256; Criteo 2048)");
  command.add("--seed", given.seed, "S",
              "Draw weights, the order of examples and synthetic data with this seed (default 1)");
  command.flag("--freeze-tables", given.freeze_tables, "Do not train the embedding tables");
  command.add("--save-every", given.save_every, "N", "Write a checkpoint every N steps too");
  command.flag("--eval", given.evaluate_only, "Test the checkpoint of --load; do not train");
}

/** Options about the order of a step. Some apply only to some pipelines. */
void add_pipeline_options(Command& command, TrainArguments& given) {
  command.heading("Pipeline");
  command.add("--pipeline", given.pipeline, "NAME",
              "Use this training pipeline. " + pipeline_help(PipelineKind::base));
  command.add("--cache-load-factor", given.cache_load_factor, "F",
              fmt::format("Keep tables in host memory and this fraction of their rows in a cache "
                          "on the device (default: tables on the device; {} 0.2)",
                          pipelines_with(&PipelineTraits::for_cached_tables)));
  command.add("--cache-policy", given.cache_policy, "NAME", cache_policy_help());
  const std::string fused = pipelines_with(&PipelineTraits::lookup_options);
  command.add("--lookup-position", given.lookup_position, "WHERE",
              lookup_position_help(fused, Values::one));
  command.add("--lookup-stream", given.lookup_stream, "NAME",
              lookup_stream_help(fused, Values::one));
  command.flag("--order-lookup-after-dense", given.order_lookup_after_dense,
               fmt::format("Order {}'s lookups after the dense optimizer, for models with position "
                           "weights",
                           fused));
  const std::string stale = pipelines_with(&PipelineTraits::stale);
  command.add("--start-batch", given.start_batch, "N",
              fmt::format("Run the first N steps of {} without staleness (default 900)", stale));
  command.flag("--stash-gradients", given.stash_gradients,
               fmt::format("Let {} use dense gradients that are one step stale too", stale));
  command.flag("--free-batch-early", given.free_batch_early,
               "Free each batch after forward instead of at the end of the step");
  command.flag("--clear-exchanged", given.clear_exchanged,
               "Free the exchange's send buffers once data has been received");
  command.flag("--free-features-early", given.free_features_early,
               "Free a batch's sparse features once their exchange has been received");
}

/** Options about the copy of batches to the device, and about the allocator. */
void add_memory_options(Command& command, TrainArguments& given) {
  command.add("--copy", given.copy, "STRATEGY",
              "Copy batches to the device with this strategy: " +
                  choices_text(kCopyMethods, CopyMethod::side_stream));
  command.add("--copies-ahead", given.copies_ahead, "N",
              "Copy N more batches to the device ahead of those that the pipeline needs there "
              "(default 0)");
  command.add("--waits", given.waits, "KIND", waits_help());
  command.add("--allocator", given.allocator, "NAME", allocator_help(given.allocator));
}

/** Options about devices and ranks. */
void add_rank_options(Command& command, TrainArguments& given) {
  command.add("--device", given.device, "NAME", device_help("h200", true, {kLocalDevice}));
  command.add("--ranks", given.ranks, "N", "Train with N ranks, as threads with virtual devices");
  command.add("--group", given.group, "KIND",
              "Run the ranks as threads (default), or as processes that use mpi (under mpirun) or "
              "nccl (torchrun's environment)");
  command.input("--sharding", given.sharding, "HOW",
                fmt::format("Shard tables in this way: {}, or a JSON file",
                            choices_text(sharding_names(), RankOptions{}.sharding)),
                Command::unless(sharding_names()));
  command.output(
      "--rendezvous", given.rendezvous, "FILE",
      "Let nccl ranks meet at this new file instead of MASTER_ADDR and MASTER_PORT; all ranks "
      "must see the file",
      Result::further);
  command.flag("--check-races", given.check_races,
               "Check every access on virtual devices; end with exit code 4 if any access races");
}

/** Options about the checkpoint and the files with results. */
void add_output_options(Command& command, TrainArguments& given) {
  command.heading("");
  command.output("--save", given.save, "FILE", "Write a checkpoint at the end and when interrupted",
                 Result::resumed);
  add_result_options(command, given.results);
  command.output("--timeline", given.timeline, "FILE",
                 "Write a timeline of the run's beginning, for Perfetto and chrome://tracing",
                 Result::further);
  command.output("--record", given.record, "FILE",
                 "Write a trace of the first rank's newest 20,000 allocations, for millrace replay "
                 "and millrace explain, also if the run ends out of memory",
                 Result::further);
  command.output("--snapshot", given.snapshot, "FILE",
                 "Write that trace as a PyTorch snapshot, for PyTorch's viewer", Result::further);
}

}  // namespace

void add_train(CLI::App& program) {
  Command command{
      program, "train",
      "Trains a recommender model on a virtual device or on a GPU, and prints how well it "
      "predicts, how fast training was, and where its memory went"};
  const auto given = std::make_shared<TrainArguments>();
  add_data_options(command, *given);
  add_model_options(command, *given);
  add_rank_options(command, *given);
  add_pipeline_options(command, *given);
  add_memory_options(command, *given);
  add_stream_options(command, given->stream);
  add_output_options(command, *given);
  command.examples({{"millrace train --data adult --epochs 3 --save model.mlr",
                     "Trains on UCI Adult, on a virtual device, and keeps a checkpoint."},
                    {"millrace train --data synthetic --steps 200 --stream file:rows",
                     "Trains 200 steps and sends changed rows to a folder."}});
  command.run([given] { run_train_command(*given); });
}

}  // namespace millrace::cli
