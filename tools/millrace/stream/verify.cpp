#include "stream/verify.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "cli/checkpoint_error.hpp"
#include "cli/command.hpp"
#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/fitted.hpp"
#include "cli/results.hpp"
#include "millrace/pipeline/model/checkpoint.hpp"
#include "millrace/streamer/sink_kinds.hpp"
#include "millrace/streamer/verify.hpp"
#include "stream/look.hpp"
#include "stream/sink_files.hpp"
#include "train/stream.hpp"

namespace millrace::cli {
namespace {

using Json = nlohmann::ordered_json;

struct VerifyArguments {
  std::string sink, checkpoint;
  ResultArguments results;
};

/** The numbers of a row in a checkpoint: weights, then m and v with one number per weight or per
 * row. */
class CheckpointRows {
 public:
  explicit CheckpointRows(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  void check(const StreamedTable& table) const {
    const auto size = checkpoint_.size_of(table.name + ".weights");
    if (size == table.rows * table.width) return;
    throw UsageError{size
                         ? fmt::format("'{}' has {} numbers in the checkpoint, and {} in the copy",
                                       table.name, *size, table.rows * table.width)
                         : fmt::format("the checkpoint has no '{}', and the copy does", table.name),
                     "CHECKPOINT", "a checkpoint of the model that was streamed"};
  }

  bool read(const StreamedTable& table, std::int64_t row, std::span<float> weights,
            std::span<float> state) const {
    const auto at = static_cast<std::uint64_t>(row);
    checkpoint_.read(table.name + ".weights", at * table.width, weights);
    for (const char* const kept : {".m", ".v"}) {
      if (state.empty()) break;
      const std::string name = table.name + kept;
      const std::uint64_t of_row = checkpoint_.size_of(name).value_or(0) / table.rows;
      if (of_row == 0 || of_row > state.size()) return false;
      checkpoint_.read(name, at * of_row, state.first(of_row));
      state = state.subspan(of_row);
    }
    return state.empty();
  }

 private:
  const Checkpoint& checkpoint_;
};

std::string describe_report(const VerifyReport& report) {
  const auto counts = report.copy.committed_by_all();
  std::string text = fmt::format(
      "{} rows: {} equal to the bit, {} different, {} newer than the checkpoint, {} absent\n",
      report.rows, report.equal, report.different, report.newer, report.absent);
  if (counts) {
    text += fmt::format("all ranks sent step {} of epoch {}, with {} rows missing\n", counts->step,
                        counts->epoch, report.copy.missing());
  }
  for (const RowDifference& row : report.first) {
    text +=
        fmt::format("{} row {} (version {}): number {} is {}, and {} in the checkpoint\n",
                    row.table, row.row, to_string(row.version), row.at, row.there, row.expected);
  }
  if (report.damaged > 0) text += fmt::format("{} damaged: {}\n", report.damaged, report.damage);
  return text;
}

Json to_document(const VerifyArguments& given, const VerifyReport& report) {
  Json first = Json::array();
  for (const RowDifference& row : report.first) {
    first.push_back({{"table", row.table},
                     {"row", row.row},
                     {"version", to_string(row.version)},
                     {"number", row.at},
                     {"is", row.there},
                     {"expected", row.expected}});
  }
  return {{"schema", "millrace.stream.verify/1"},
          {"sink", redacted(given.sink)},
          {"checkpoint", given.checkpoint},
          {"same", report.same()},
          {"rows", report.rows},
          {"equal", report.equal},
          {"different", report.different},
          {"newer", report.newer},
          {"absent", report.absent},
          {"damaged", report.damaged},
          {"missing", report.copy.missing()},
          {"first", std::move(first)}};
}

VerifyReport verify(const VerifyArguments& given, Sink& sink) {
  try {
    const Checkpoint checkpoint{given.checkpoint};
    const CheckpointRows rows{checkpoint};
    const SinkState state = sink.state();
    if (state.schema) {
      for (const StreamedTable& table : state.schema->tables) rows.check(table);
    }
    return verify_copy(sink,
                       {.read = [&](const auto& table, std::int64_t row, auto weights,
                                    auto kept) { return rows.read(table, row, weights, kept); },
                        .lineage = lineage_in(checkpoint.header().stream, "CHECKPOINT")});
  } catch (const CheckpointError& error) {
    throw refused_checkpoint(error, "CHECKPOINT");
  } catch (const SinkError& error) {
    throw refused_sink(given.sink, error, what_sink_would_be_right(error));
  } catch (const RecordError& error) {
    throw refused_sink(given.sink, error, "a sink whose rows are as they were written");
  } catch (const std::invalid_argument& error) {
    throw refused_sink(given.sink, error, "a sink that `millrace train --stream` wrote to");
  }
}

void run(const VerifyArguments& given) {
  const std::unique_ptr<Sink> sink = open_to_look_at(given.sink);
  const Results results{given.results};
  const VerifyReport report = verify(given, *sink);
  results.write([&](const Painter&) { return fitted(describe_report(report)); },
                [&] { return to_document(given, report); });
  if (!report.same()) throw Ended{number_of(ExitCode::different)};
}

}  // namespace

void add_stream_verify(CLI::App& stream) {
  Command command{
      stream, "verify",
      "Compares every row of a copy with a checkpoint, bit by bit. The exit code is 0 if all rows "
      "are equal, 1 if any differs, and 2 if they cannot be compared"};
  const auto given = std::make_shared<VerifyArguments>();
  command
      .input("SINK", given->sink, "",
             fmt::format("Compare the rows of this sink: {}", sink_addresses()), sink_files)
      .required();
  command
      .input("CHECKPOINT", given->checkpoint, "",
             "Compare them with this checkpoint, which train --save wrote")
      .required();
  add_result_options(command, given->results);
  command.examples({{"millrace stream verify file:rows model.mlr",
                     "Compares the rows of a folder with a checkpoint."},
                    {"millrace stream verify redis://host:6379 model.mlr --json report.json",
                     "Compares the rows in a Redis server, and writes the results as JSON as "
                     "well."}});
  command.run([given] { run(*given); });
}

}  // namespace millrace::cli
