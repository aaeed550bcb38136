#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/streamer/sink.hpp"

/// A log in memory and the trainers that write it.
namespace millrace::test {

inline constexpr std::uint64_t kRows = 20;
inline const StreamSchema kSchema{RowContent::weights, {{"table.a", kRows, 1, 0}}};

/// Batches in memory. The batches with an index below `removed` no longer exist.
struct Log {
  std::vector<StepBatch> batches;
  std::size_t removed = 0;
  int snapshots_asked = 0;
  std::set<std::uint64_t> lost;  ///< steps of commits whose batches lack a row
  std::optional<StreamSchema> schema = kSchema;
  int schemas_lost = 0;  ///< so many reads of the schema find that messages were removed
};

class LogSource final : public RecordSource {
 public:
  explicit LogSource(Log& log) : log_(log) {}

  [[nodiscard]] std::string name() const override { return "log"; }
  void seek(std::string_view position) override {
    std::size_t at = log_.removed;
    if (!position.empty()) {
      std::from_chars(position.data(), position.data() + position.size(), at);
      if (at < log_.removed) throw SinkError{SinkError::Kind::lost, "it was removed"};
    }
    at_ = at;
  }
  [[nodiscard]] std::optional<StreamSchema> schema() override {
    if (log_.schemas_lost > 0) {
      --log_.schemas_lost;
      throw SinkError{SinkError::Kind::lost, "it was removed"};
    }
    return log_.schema ? log_.schema : given_;
  }
  [[nodiscard]] std::optional<Next> next(std::chrono::nanoseconds) override {
    if (at_ < log_.removed) throw SinkError{SinkError::Kind::lost, "it was removed"};
    if (at_ >= log_.batches.size()) return std::nullopt;
    const StepBatch& batch = log_.batches[at_++];
    const bool lost = log_.lost.contains(batch.commit.version.step);
    return Next{batch, std::to_string(at_), lost ? "a row fell out" : ""};
  }
  void take_schema(const StreamSchema& schema) override { given_ = schema; }
  [[nodiscard]] Left left() override { return {log_.batches.size() - at_, "batches"}; }
  void ask_for_snapshot() override { ++log_.snapshots_asked; }

 private:
  Log& log_;
  std::optional<StreamSchema> given_;
  std::size_t at_ = 0;
};

/// Writes what trainers would write, with one chain of commits per rank. Keeps the table's
/// contents.
struct Writer {
  Log log;
  std::map<std::int64_t, float> table;
  std::map<std::uint32_t, Version> newest;
  std::uint32_t ranks = 1;
  std::uint64_t step = 0, answers = 0, epoch = 1;

  StepBatch made(std::uint32_t rank, const std::vector<std::int64_t>& rows) {
    ++step;
    StepBatch batch;
    batch.commit = {.version = {epoch, step},
                    .after = newest[rank],
                    .step = step,
                    .rank = rank,
                    .ranks = ranks,
                    .answers = answers};
    for (const std::int64_t row : rows) {
      const float value = static_cast<float>(100 * step) + static_cast<float>(row);
      table[row] = value;
      batch.add({.version = {epoch, step}, .row = row, .weights = {&value, 1}});
    }
    newest[rank] = {epoch, step};
    return batch;
  }
  void write(std::uint32_t rank, const std::vector<std::int64_t>& rows) {
    log.batches.push_back(made(rank, rows));
  }
  /// Writes all rows again, as a trainer does on request.
  void snapshot(std::uint32_t rank = 0) {
    newest[rank] = {};
    StepBatch batch = made(rank, {});
    for (const auto& [row, value] : table) {
      batch.add({.version = {epoch, step}, .row = row, .weights = {&value, 1}});
    }
    log.batches.push_back(std::move(batch));
  }
};

inline std::map<std::int64_t, float> rows_of(Sink& sink) {
  std::map<std::int64_t, float> rows;
  sink.read([&](const RowRecord& row) { rows[row.row] = row.weights[0]; });
  return rows;
}

inline bool always() { return true; }

}  // namespace millrace::test
