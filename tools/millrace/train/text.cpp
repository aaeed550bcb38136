#include "train/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/page.hpp"
#include "cli/wording.hpp"
#include "footprint/options.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/text/units.hpp"
#include "train/stream.hpp"

namespace millrace::cli {
namespace {

std::string layers(const std::vector<std::size_t>& widths) {
  return widths.empty() ? "none" : fmt::format("{}", fmt::join(widths, "-"));
}

std::string render_model(const TrainPlan& plan) {
  const ModelDescription& model = plan.model;
  const bool frozen = model.table_optimizer.kind == OptimizerKind::none;
  return fmt::format(
      "{} tables of {} rows, {}; dense arch {}, {}, over arch {}; {} parameters; tables {}, dense "
      "{}",
      plan.tables, grouped(plan.table_rows), fmt::format("{} wide", model.width),
      layers(model.dense_arch), model.interaction == Interaction::dot ? "dot" : "concatenate",
      layers(model.over_arch), grouped(plan.parameters),
      frozen ? "frozen"
             : fmt::format("{} {:g}", millrace::to_string(model.table_optimizer.kind),
                           model.table_optimizer.learning_rate),
      fmt::format("{} {:g}", millrace::to_string(model.dense_optimizer.kind),
                  model.dense_optimizer.learning_rate));
}

std::string render_data(const TrainOptions& options, const TrainPlan& plan) {
  const auto count = [](const std::optional<std::uint64_t>& examples) {
    return examples ? grouped(*examples) + " examples" : std::string{"examples as they are read"};
  };
  return fmt::format("{}: {}, batches of {}{}, seed {}; tested on {}", options.data.name,
                     count(plan.examples), grouped(plan.batch_size),
                     plan.group.empty() ? "" : " over all ranks", plan.seed,
                     plan.tested_on == "test set" && plan.test_examples
                         ? fmt::format("{} others", grouped(*plan.test_examples))
                         : fmt::format("the {}", plan.tested_on));
}

std::string render_ranks(const TrainOptions& options, const TrainPlan& plan) {
  std::map<std::string_view, std::size_t> tables;  // by kind of sharding
  for (const auto* placements : {&plan.sharding.tables, &plan.sharding.weighted_tables}) {
    for (const TablePlacement& placement : *placements) {
      ++tables[millrace::to_string(placement.sharding)];
    }
  }
  std::vector<std::string> placed;
  for (const auto& [name, count] : tables) placed.push_back(fmt::format("{} {}", count, name));
  const bool threads = options.ranks.group == GroupKind::threads;
  return fmt::format(
      "{} {}; tables: {}", plan.sharding.ranks,
      threads ? std::string{"as threads"} : fmt::format("as processes of {}", plan.group),
      placed.empty() ? "none" : fmt::format("{}", fmt::join(placed, ", ")));
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", grouped(whole / 3600), whole % 3600 / 60);
}

std::string render_races(const RankMemory& memory, const std::string& of, const Painter& paint) {
  std::string text;
  for (const std::string& race : memory.races) {
    text += fmt::format("{}\n", paint(fmt::format("race{}: {}", of, race), Look::bad));
  }
  return text;
}

void add_row(TextTable& table, const std::string& name, const RankMemory& memory) {
  const auto bytes = [](std::size_t size) { return TextTable::Cell{format_bytes(size)}; };
  table.add_row({{name},
                 bytes(memory.reserved),
                 bytes(memory.active),
                 bytes(memory.allocated),
                 bytes(memory.live),
                 bytes(memory.rounding),
                 bytes(memory.streams),
                 bytes(memory.packing),
                 bytes(memory.policy)});
}

std::string render_memory(const TrainOptions& options, const TrainResult& result,
                          const Painter& paint) {
  TextTable table{{{"", {{""}}},
                   {"peaks", {{"reserved"}, {"active"}, {"alloc"}}},
                   {"where it went", {{"live"}, {"round"}, {"streams"}, {"packing"}, {"policy"}}}}};
  const std::string what =
      fmt::format("{}, {}", options.training.allocator, millrace::to_string(options.training.copy));
  std::string races;
  if (result.ranks.empty()) {
    const RankMemory memory = memory_of(result.accounting);
    add_row(table, what, memory);
    races = render_races(memory, "", paint);
  }
  const bool one_checker = options.ranks.group == GroupKind::threads;  // sees all ranks
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank) {
    add_row(table, fmt::format("{}, rank {}", what, rank), result.ranks[rank]);
    if (rank > 0 && one_checker) continue;
    races += render_races(result.ranks[rank], one_checker ? "" : fmt::format(" of rank {}", rank),
                          paint);
  }
  std::string text = table.render(paint);
  if (!result.accounting.whole_ladder) {
    text += paint("where it went: of the newest allocations, not of the whole run\n", Look::faint);
  }
  if (result.accounting.races && races.empty()) races = "no races\n";
  return text + races;
}

/** The line about the cache. Each row counts once per batch. */
std::string render_cache(const CacheCounts& counts) {
  const std::uint64_t rows = counts.hits + counts.loads + counts.unplaced;
  const double share =
      rows == 0 ? 0 : 100.0 * static_cast<double>(counts.hits) / static_cast<double>(rows);
  return fmt::format(
      "cache   {:.1f}% of batches' rows were there; {} came, {} went back changed, {} had no "
      "place\n",
      share, grouped(counts.loads), grouped(counts.write_backs), grouped(counts.unplaced));
}

std::string render_sink(const ShippingReport& sink, const Painter& paint) {
  std::string text = fmt::format(
      "stream  {}: {} rows of {} steps, {}; lag {:.1f} ms (P99 {:.1f}, longest {:.1f})", sink.sink,
      grouped(sink.rows), grouped(sink.steps), format_bytes(sink.bytes),
      in_milliseconds(sink.lag_p50), in_milliseconds(sink.lag_p99), in_milliseconds(sink.lag_most));
  if (sink.coalesced_rows > 0) {
    text += fmt::format(", {} rows merged with newer ones", grouped(sink.coalesced_rows));
  }
  if (sink.snapshots > 0) text += fmt::format(", {} snapshots", grouped(sink.snapshots));
  if (sink.retries > 0) text += fmt::format(", {} retries", grouped(sink.retries));
  if (sink.absent_rows > 0) {
    text += fmt::format(", {} rows lost by it sent again", grouped(sink.absent_rows));
  }
  if (!sink.unchecked.empty()) text += "; " + sink.unchecked;
  text += '\n';
  const std::string lacks = what_it_lacks(sink);
  if (lacks.empty()) return text;
  return text +
         paint(wrap(fmt::format("stream  {}: {}", sink.sink, lacks), page_width(), 8), Look::bad) +
         '\n';
}

std::string render_stream(const TrainResult& result, const Painter& paint) {
  std::string text;
  for (const ShippingReport& sink : result.stream->sinks) text += render_sink(sink, paint);
  if (!result.stream_complete && result.stream->complete()) {
    text += paint("stream  another rank could not deliver all\n", Look::bad);
  }
  CaptureCounts all;
  for (const CaptureCounts& counts : result.stream->captured) {
    all.skipped_rows += counts.skipped_rows;
    all.waited += counts.waited;
    all.dropped_steps += counts.dropped_steps;
    all.failures += counts.failures;
  }
  if (all.skipped_rows > 0) {
    text +=
        fmt::format("stream  {} rows of skipped tables were not sent\n", grouped(all.skipped_rows));
  }
  if (all.failures > 0) {
    text += paint(fmt::format("stream  {} driver calls failed; their rows were sent later\n",
                              grouped(all.failures)),
                  Look::bad);
  }
  return text;
}

}  // namespace

std::string render_plan(const TrainOptions& options, const TrainPlan& plan, const Painter& paint) {
  constexpr std::size_t kIndent = 7;
  const TrainingOptions& training = options.training;
  const auto line = [&](std::string_view what, const std::string& text) {
    return fmt::format("{:<7}{}\n", what, wrap(text, page_width() - kIndent, kIndent));
  };
  std::string text =
      paint(fmt::format("{} with {} copies, {} waits, allocator {}, on {}",
                        millrace::to_string(training.pipeline), millrace::to_string(training.copy),
                        to_string(training.waits), training.allocator, training.device),
            Look::strong) +
      '\n' + line("data", render_data(options, plan)) + line("model", render_model(plan));
  if (!plan.group.empty()) text += line("ranks", render_ranks(options, plan));
  if (options.cache) {
    text +=
        line("cache",
             fmt::format("{} of the rows on the device, {}; all of them in host memory",
                         options.cache->load_factor, millrace::to_string(options.cache->policy)));
  }
  if (plan.stream_epoch > 0) {
    std::vector<std::string> shown;
    for (const std::string& sink : options.stream.sinks) shown.push_back(redacted(sink));
    text += line("stream", fmt::format("{} of changed rows to {}, epoch {}",
                                       to_string(options.stream.streaming.capture.content),
                                       fmt::join(shown, ", "), plan.stream_epoch));
  }
  if (plan.steps > 0) {
    text += line("from", fmt::format("{}: step {}, epoch {}, batch {}", options.load->string(),
                                     grouped(plan.steps), plan.from.epoch + 1, plan.from.batch));
  }
  if (plan.begins_anew > 0) {
    text += line("reset",
                 "optimizer state of tables that another optimizer updated before: they were "
                 "data-parallel, or are now");
  }
  return text + '\n' +
         paint(fmt::format("{:>5} {:>8} {:>9} {:>10} {:>9} {:>11} {:>9}\n", "epoch", "steps",
                           "loss", "test loss", "AUC", "examples/s", "seconds"),
               Look::faint);
}

std::string render_epoch(const EpochResult& epoch) {
  const auto tested = [&](auto number) {
    return epoch.tested ? fmt::format("{:.4f}", (*epoch.tested).*number) : std::string{"–"};
  };
  return fmt::format(
      "{:>5} {:>8} {:>9.4f} {} {} {:>11} {:>9.2f}\n", epoch.epoch, grouped(epoch.trained.steps),
      epoch.trained.loss, pad(tested(&Evaluation::loss), 10, Align::right),
      pad(tested(&Evaluation::auc), 9, Align::right),
      grouped(static_cast<std::uint64_t>(epoch.examples_per_second())), epoch.seconds);
}

std::string render_progress(const EpochProgress& progress) {
  std::string text = fmt::format("epoch {} of {}: step {}", grouped(progress.epoch),
                                 grouped(progress.epochs), grouped(progress.step));
  if (progress.steps) text += fmt::format(" of {}", grouped(*progress.steps));
  text += fmt::format(", {} examples/s",
                      grouped(static_cast<std::uint64_t>(progress.examples_per_second)));
  if (progress.seconds_left) text += fmt::format(", {} left", duration(*progress.seconds_left));
  return text;
}

std::string render_end(const TrainOptions& options, const TrainResult& result,
                       const Painter& paint) {
  std::string text;
  if (result.epochs.empty()) {
    text += options.evaluate_only ? "" : "nothing was left to train\n";
    if (result.final) {
      text += fmt::format("{} examples: loss {:.4f}, AUC {:.4f}\n", grouped(result.final->examples),
                          result.final->loss, result.final->auc);
    }
  }
  text +=
      fmt::format("\nweights xxh3-128:{} after {} steps\n", result.digest, grouped(result.steps));
  if (const auto stale = stale_steps(options, result); stale == 0) {
    text += paint(fmt::format("stale   none: these steps are those of base; --start-batch is {}\n",
                              grouped(options.training.stale.start_batch)),
                  Look::bad);
  } else if (stale) {
    text += fmt::format("stale   {} steps, those from --start-batch {} on\n", grouped(*stale),
                        grouped(options.training.stale.start_batch));
  }
  if (result.cache) text += render_cache(*result.cache);
  if (result.stream) text += render_stream(result, paint);
  if (result.interrupted) text += paint("interrupted\n", Look::bad);
  if (result.saved) text += fmt::format("saved   {}\n", options.save->string());
  if (result.malformed.count > 0) {
    text +=
        paint(wrap("left out: " + result.malformed.describe(), page_width(), 10), Look::bad) + '\n';
  }
  return text + '\n' + render_memory(options, result, paint);
}

std::string render_timeline(const std::string& file, const Timeline& timeline) {
  const std::string left_out =
      timeline.left_out() == 0
          ? "all"
          : fmt::format("the first {} events, {} after those left out; --steps ends a run early",
                        grouped(timeline.recorded()), grouped(timeline.left_out()));
  return fmt::format("\ntimeline {}: {}\n", file, left_out);
}

}  // namespace millrace::cli
