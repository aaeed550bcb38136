#include "stream/apply.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "cli/command.hpp"
#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/results.hpp"
#include "cli/status_line.hpp"
#include "cli/text.hpp"
#include "cli/values.hpp"
#include "cli/wording.hpp"
#include "millrace/device/thread_executor.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/streamer/applier.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "stream/sink_files.hpp"
#include "train/interrupt.hpp"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::ordered_json;

struct ApplyArguments {
  std::string from, to;
  std::optional<std::string> until_idle;
  ResultArguments results;
};

template <typename Open>
auto opened(Open&& open, const std::string& spec, const char* option, const std::string& right) {
  try {
    return open(spec);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), option, right};
  }
}

/** The state of a copy at the end, and what it lacks. */
struct ApplyResult {
  std::string copy;  ///< its name
  ApplyReport report;
  std::optional<Version> sent;             ///< the newest step that all ranks have sent
  std::string unknown_step;                ///< why `sent` is unknown; empty if it is known
  std::optional<RecordSource::Left> left;  ///< part of the log that is not applied
  std::string lacks;                       ///< one line per reason; "": complete

  [[nodiscard]] bool complete() const noexcept { return lacks.empty(); }
};

std::string describe_step(const ApplyResult& result) {
  if (!result.unknown_step.empty()) {
    return fmt::format("; its step is unknown: {}", result.unknown_step);
  }
  return result.sent ? fmt::format("; all ranks sent step {} of epoch {}", result.sent->step,
                                   result.sent->epoch)
                     : std::string{"; not all ranks have sent a step yet"};
}

std::string describe_result(const ApplyResult& result) {
  const ApplyReport& report = result.report;
  std::string text = fmt::format("{}: {} batches, {} rows, {}", result.copy, report.batches,
                                 report.rows, format_bytes(report.bytes));
  text += describe_step(result);
  if (report.gaps > 0) {
    text += fmt::format("; {}, {} requested", counted(report.gaps, "gap"),
                        counted(report.snapshots, "snapshot"));
  }
  if (report.restarts > 0) {
    text += fmt::format("; restarted {} because the copy had been emptied",
                        counted(report.restarts, "time"));
  }
  if (report.retries > 0) {
    text += fmt::format("; {} retried, the last one after: {}", counted(report.retries, "call"),
                        report.last_error);
  }
  return text + '\n' + result.lacks;
}

Json to_document(const ApplyArguments& given, const ApplyResult& result) {
  const auto text = [](const std::string& words) { return words.empty() ? Json() : Json(words); };
  const ApplyReport& report = result.report;
  return {{"schema", "millrace.stream.apply/1"},
          {"sink", redacted(given.to)},
          {"complete", result.complete()},
          {"epoch", result.sent ? Json(result.sent->epoch) : Json()},
          {"step", result.sent ? Json(result.sent->step) : Json()},
          {"batches", report.batches},
          {"rows", report.rows},
          {"bytes", report.bytes},
          {"gaps", report.gaps},
          {"last_gap", text(report.last_gap)},
          {"snapshots", report.snapshots},
          {"restarts", report.restarts},
          {"retries", report.retries},
          {"last_error", text(report.last_error)},
          {"has_schema", report.has_schema},
          {"lacks_rows", !report.complete},
          {"source",
           {{"source", redacted(given.from)},
            {"left", result.left ? Json(result.left->count) : Json()},
            {"unit", result.left ? Json(result.left->unit) : Json()}}}};
}

class Application {
 public:
  explicit Application(const ApplyArguments& given)
      : until_idle_(idle_of(given)),
        source_(opened(open_source, given.from, "--from", source_addresses())),
        copy_(opened(open_sink, given.to, "--to", sink_addresses())),
        applier_(*source_, *copy_, executor_) {
    if (given.from == given.to) {
      throw UsageError{"a sink cannot be a copy of itself", "--to", "another place than --from"};
    }
  }

  [[nodiscard]] ApplyResult run() {
    StatusLine status;
    const auto go_on = [&] { return !interrupt_.asked() && !failed_for_long(); };
    for (bool more = true; go_on() && (more || !ended(go_on));) {
      more = applier_.apply_next(200ms, go_on);
      if (more) applied();
      say_gaps();
      if (status.due()) status.show(fmt::format("{} rows applied", applier_.report().rows));
    }
    const auto in_time = [&, until = executor_.now() + 10s] { return executor_.now() < until; };
    applier_.flush(in_time);
    ApplyResult result{.copy = std::string{copy_->name()}};
    result.left = applier_.left(in_time);
    result.report = applier_.report();
    result.lacks = what_it_lacks(result.left);
    try {
      result.sent = copy_->state().committed_by_all();
    } catch (const SinkError& error) {
      result.unknown_step = error.what();
    }
    return result;
  }

 private:
  [[nodiscard]] static std::optional<Nanoseconds> idle_of(const ApplyArguments& given) {
    if (!given.until_idle) return std::nullopt;
    const double seconds = read_number("--until-idle", *given.until_idle, 0.001, 1e6);
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>{seconds});
  }
  void say_gaps() {
    const ApplyReport report = applier_.report();
    if (report.gaps == said_) return;
    said_ = report.gaps;
    spdlog::warn("{}; a snapshot is requested", report.last_gap);
  }

  void applied() {
    last_ = executor_.now();
    at_end_.reset();
  }

  [[nodiscard]] bool waited(Nanoseconds since) {
    return until_idle_ && executor_.now() - since > *until_idle_;
  }
  /** Whether calls to the source or the copy fail, without progress for `until_idle_`. */
  [[nodiscard]] bool failed_for_long() { return applier_.report().failing && waited(last_); }

  /** Whether the copy had the whole log for `until_idle_`, and nothing was added in that time. */
  [[nodiscard]] bool ended(const Applier::GoOn& go_on) {
    if (!until_idle_) return false;
    if (at_end_ && !waited(*at_end_)) return false;
    const auto left = applier_.left(go_on);
    if (left && left->count > 0) at_end_.reset();
    if (!left || left->count > 0) return can_not_go_on();
    if (at_end_) return true;
    at_end_ = last_ = executor_.now();
    return false;
  }
  /** Whether the log could not be applied for too long, for example because its schema is missing.
   */
  [[nodiscard]] bool can_not_go_on() {
    const Nanoseconds longest =
        applier_.report().has_schema ? std::max<Nanoseconds>(*until_idle_, 60s) : *until_idle_;
    return executor_.now() - last_ > longest;
  }

  /** One line for each reason why the copy may differ from the log; empty if there is none. */
  [[nodiscard]] std::string what_it_lacks(const std::optional<RecordSource::Left>& left) const {
    const ApplyReport report = applier_.report();
    std::string text;
    if (!left || report.failing) {
      text += fmt::format("how far it lags is unknown, because the last call failed: {}\n",
                          report.last_error);
    } else if (left->count > 0) {
      text += fmt::format("it lags: {} {} of {} are not applied\n", left->count, left->unit,
                          source_->name());
    }
    if (!report.has_schema) {
      text += left && left->count > 0 ? "the log has lost its schema, and its rows cannot be read "
                                        "without it; a running trainer sends both again\n"
                                      : "the log has no rows yet\n";
    } else if (!report.complete) {
      text += "it lacks rows of the log\n";
    }
    return text;
  }

  const std::optional<Nanoseconds> until_idle_;
  const Interrupt interrupt_;
  ThreadExecutor executor_;
  const std::unique_ptr<RecordSource> source_;
  const std::unique_ptr<Sink> copy_;
  Applier applier_;
  std::uint64_t said_ = 0;              ///< gaps that were reported
  Nanoseconds last_ = executor_.now();  ///< time of the last progress
  std::optional<Nanoseconds> at_end_;   ///< since when the copy has the whole log
};

void run(const ApplyArguments& given) {
  Application application{given};
  const Results results{given.results};
  const ApplyResult result = application.run();
  results.write([&](const Painter&) { return describe_result(result); },
                [&] { return to_document(given, result); });
  if (!result.complete()) throw Ended{number_of(ExitCode::incomplete)};
}

}  // namespace

void add_stream_apply(CLI::App& stream) {
  Command command{
      stream, "apply",
      "Keeps a copy up to date with the log in a file sink or a topic. The copy has the newest "
      "version of each row. The command continues where it stopped. The exit code is 0 if the copy "
      "has all of the log, and 3 if it lags or lacks rows"};
  const auto given = std::make_shared<ApplyArguments>();
  command
      .input("--from", given->from, "SOURCE",
             fmt::format("Read changed rows from this log: {}", source_addresses()), sink_files)
      .required();
  command
      .output("--to", given->to, "SINK",
              fmt::format("Write the rows to this sink: {}", sink_addresses()), Result::further,
              sink_files)
      .required();
  command.add("--until-idle", given->until_idle, "SECONDS",
              "Stop at the end of the log if no rows were added for this long (default: run until "
              "Ctrl-C)");
  add_result_options(command, given->results);
  command.examples(
      {{"millrace stream apply --from file:rows --to rocksdb:copy",
        "Keeps a copy in RocksDB up to date with a folder, until Ctrl-C."},
       {"millrace stream apply --from kafka://broker/rows --to redis://host:6379 --until-idle 5",
        "Copies a topic to Redis, and ends when nothing was added for 5 seconds."}});
  command.run([given] { run(*given); });
}

}  // namespace millrace::cli
