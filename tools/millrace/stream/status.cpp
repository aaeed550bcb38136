#include "stream/status.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "cli/command.hpp"
#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/fitted.hpp"
#include "cli/results.hpp"
#include "cli/text.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "millrace/streamer/stream_status.hpp"
#include "stream/look.hpp"
#include "stream/sink_files.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StatusArguments {
  std::string sink;
  std::optional<std::string> from;
  ResultArguments results;
};

/** The collected figures. */
struct StatusReport {
  StreamStatus status;
  std::optional<CopyLag> lag;
  std::uint64_t now_ms = 0;

  [[nodiscard]] bool complete() const {
    return status.complete() && (!lag || (lag->lost.empty() && lag->left.count == 0));
  }
};

std::uint64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

std::optional<std::uint64_t> age_of(const StepCommit& commit, std::uint64_t now_ms) {
  if (commit.wall_time_ms == 0) return std::nullopt;
  return now_ms - std::min(now_ms, commit.wall_time_ms);
}

std::string seconds(const std::optional<std::uint64_t>& ms) {
  return ms ? fmt::format("{:.1f} s", static_cast<double>(*ms) / 1e3) : "unknown";
}

std::string describe_marks(const StatusReport& found, const Painter& paint) {
  const StreamStatus& status = found.status;
  TextTable table{
      {{"", {{""}}}, {"newest commit", {{"epoch"}, {"step"}, {"age"}}}, {"rows", {{"missing"}}}}};
  const std::uint64_t newest = status.sink.newest_epoch();
  for (const auto& [rank, commit] : status.sink.commits) {
    if (commit.version.epoch != newest) continue;
    table.add_row({{fmt::format("rank {}", rank)},
                   {std::to_string(commit.version.epoch)},
                   {std::to_string(commit.step)},
                   {seconds(age_of(commit, found.now_ms))},
                   {std::to_string(commit.missing)}});
  }
  return table.render(paint);
}

std::string describe_age(const StreamStatus& status) {
  if (!status.age_ms)
    return "the age of the oldest undelivered row is unknown: commits have no time\n";
  return fmt::format("the oldest undelivered row, if any, is at {} {} old\n",
                     status.missing == 0 ? "most" : "least", seconds(status.age_ms));
}

std::string describe_lag(const CopyLag& lag, const std::string& from) {
  if (!lag.lost.empty())
    return fmt::format("{} no longer has the copy's place: {}\n", from, lag.lost);
  if (lag.left.count == 0) return fmt::format("all of {} is applied\n", from);
  return fmt::format("{} {} of {} are not applied, the oldest batch of them {} old\n",
                     lag.left.count, lag.left.unit, from, seconds(lag.oldest_ms));
}

std::string describe_status(const StatusArguments& given, const StatusReport& found,
                            const Painter& paint) {
  const StreamStatus& status = found.status;
  if (status.empty)
    return fmt::format("{} is empty: no stream was written to it\n", redacted(given.sink));
  std::string text = describe_marks(found, paint);
  const auto counts = status.sink.committed_by_all();
  text += counts ? fmt::format("all ranks sent step {} of epoch {}; {} rows are missing\n",
                               counts->step, counts->epoch, status.missing)
                 : fmt::format("{} of {} ranks have sent a step; {} rows are missing\n",
                               status.committed, status.ranks, status.missing);
  if (status.committed > 0) text += describe_age(status);
  if (!status.waits_for.empty()) {
    text += fmt::format("a snapshot of rank {} was requested and has not arrived yet\n",
                        fmt::join(status.waits_for, ", "));
  }
  if (found.lag) text += describe_lag(*found.lag, redacted(*given.from));
  return text;
}

Json or_null(const std::optional<std::uint64_t>& number) { return number ? Json(*number) : Json(); }

Json document_of_age(const StreamStatus& status) {
  if (!status.age_ms) return {};
  return {{"age_ms", *status.age_ms}, {"bound", status.missing == 0 ? "at_most" : "at_least"}};
}

Json document_of_commits(const StatusReport& found) {
  Json commits = Json::array();
  for (const auto& [rank, commit] : found.status.sink.commits) {
    commits.push_back({{"rank", rank},
                       {"ranks", commit.ranks},
                       {"epoch", commit.version.epoch},
                       {"step", commit.step},
                       {"missing_rows", commit.missing},
                       {"age_ms", or_null(age_of(commit, found.now_ms))}});
  }
  return commits;
}

Json to_document(const StatusArguments& given, const StatusReport& found) {
  const StreamStatus& status = found.status;
  const auto counts = status.sink.committed_by_all();
  Json document{{"schema", "millrace.stream.status/1"},
                {"sink", redacted(given.sink)},
                {"complete", found.complete()},
                {"empty", status.empty},
                {"epoch", status.sink.newest_epoch()},
                {"step", counts ? Json(counts->step) : Json()},
                {"ranks", status.ranks},
                {"ranks_committed", status.committed},
                {"missing_rows", status.missing},
                {"newest_mark_age_ms", or_null(status.age_ms)},
                {"oldest_undelivered", document_of_age(status)},
                {"marks", document_of_commits(found)},
                {"applied_copy", status.applied},
                {"waits_for_snapshot_of_ranks", status.waits_for}};
  if (!found.lag) return document;
  document["source"] = {{"source", redacted(*given.from)},
                        {"lost", found.lag->lost.empty() ? Json() : Json(found.lag->lost)},
                        {"left", found.lag->left.count},
                        {"unit", found.lag->left.unit},
                        {"oldest_left_age_ms", or_null(found.lag->oldest_ms)}};
  return document;
}

std::unique_ptr<RecordSource> source_of(const StatusArguments& given) {
  if (!given.from) return nullptr;
  try {
    return open_source(*given.from);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--from", source_addresses()};
  }
}

StatusReport look(const StatusArguments& given, Sink& sink, RecordSource* source) {
  StatusReport found{.now_ms = milliseconds_now()};
  try {
    found.status = status_of(sink, found.now_ms);
  } catch (const SinkError& error) {
    throw refused_sink(given.sink, error, what_sink_would_be_right(error));
  } catch (const std::invalid_argument& error) {
    throw refused_sink(given.sink, error, "a copy that `millrace stream apply` made");
  }
  if (source == nullptr) return found;
  if (!found.status.sink.commits.empty() && !found.status.applied) {
    throw UsageError{fmt::format("{} is not a copy of a log: a trainer writes to it", given.sink),
                     "--from", "a sink that `millrace stream apply` writes to"};
  }
  try {
    found.lag = lag_of(found.status, *source, found.now_ms);
  } catch (const SinkError& error) {
    throw UsageError{error.what(), "--from", "the log that the copy is made from"};
  }
  return found;
}

void run(const StatusArguments& given) {
  const std::unique_ptr<Sink> sink = open_to_look_at(given.sink);
  const std::unique_ptr<RecordSource> source = source_of(given);
  const Results results{given.results};
  const StatusReport found = look(given, *sink, source.get());
  results.write([&](const Painter& paint) { return fitted(describe_status(given, found, paint)); },
                [&] { return to_document(given, found); });
  if (!found.complete()) throw Ended{number_of(ExitCode::incomplete)};
}

}  // namespace

void add_stream_status(CLI::App& stream) {
  Command command{
      stream, "status",
      "Shows the step that a sink has, its age, and how many rows it lacks, without writing to it. "
      "The exit code is 0 if it is complete, 3 if it lacks rows, and 2 if it cannot be read"};
  const auto given = std::make_shared<StatusArguments>();
  command
      .input("SINK", given->sink, "",
             fmt::format("Show the state of this sink: {}", sink_addresses()), sink_files)
      .required();
  command.input("--from", given->from, "SOURCE",
                "Show how far the copy lags behind this log, which `stream apply` reads",
                sink_files);
  add_result_options(command, given->results);
  command.examples({{"millrace stream status rocksdb:copy",
                     "Shows the step of a copy, its age and its missing rows."},
                    {"millrace stream status rocksdb:copy --from file:rows",
                     "Also shows how far the copy lags behind its log."}});
  command.run([given] { run(*given); });
}

}  // namespace millrace::cli
