#include "millrace/streamer/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "sink/chain.hpp"

namespace millrace {
namespace {

constexpr std::size_t kFirst = 10;

class Comparison {
 public:
  Comparison(const StreamSchema& schema, const ReferenceTables& tables, VerifyReport& report)
      : schema_(schema), tables_(tables), report_(report) {
    for (const StreamedTable& table : schema.tables) {
      report_.rows += table.rows;
      seen_.emplace_back(table.rows);
    }
  }

  void compare(const RowRecord& row) {
    try {
      check_row(row, schema_);
    } catch (const RecordError& error) {
      if (report_.damaged++ == 0) report_.damage = error.what();
      return;
    }
    seen_[row.table][static_cast<std::size_t>(row.row)] = true;
    const StreamedTable& table = schema_.tables[row.table];
    weights_.resize(row.weights.size());
    state_.resize(row.state.size());
    if (!tables_.read(table, row.row, weights_, state_)) return differs(row, table, 0, 0, 0);
    const auto there = [&](std::size_t i) {
      return i < row.weights.size() ? row.weights[i] : row.state[i - row.weights.size()];
    };
    const auto expected = [&](std::size_t i) {
      return i < weights_.size() ? weights_[i] : state_[i - weights_.size()];
    };
    for (std::size_t i = 0; i < weights_.size() + state_.size(); ++i) {
      const float here = there(i), right = expected(i);
      // Compares bits: NaN is equal to itself, and -0 differs from 0.
      if (std::memcmp(&here, &right, sizeof here) == 0) continue;
      return differs(row, table, i, here, right);
    }
    ++report_.equal;
  }

  void count_absent() {
    for (const std::vector<bool>& rows : seen_) {
      report_.absent += static_cast<std::uint64_t>(std::ranges::count(rows, false));
    }
  }

 private:
  void differs(const RowRecord& row, const StreamedTable& table, std::size_t at, float there,
               float expected) {
    // The row was trained after the checkpoint that the copy is compared with.
    const bool later = !tables_.lineage.empty() && !tables_.lineage.contains(row.version);
    ++(later ? report_.newer : report_.different);
    if (later || report_.first.size() == kFirst) return;
    report_.first.push_back({table.name, row.row, row.version, at, there, expected});
  }

  const StreamSchema& schema_;
  const ReferenceTables& tables_;
  VerifyReport& report_;
  std::vector<std::vector<bool>> seen_;
  std::vector<float> weights_, state_;
};

}  // namespace

VerifyReport verify_copy(Sink& copy, const ReferenceTables& tables) {
  VerifyReport report{.copy = copy.state()};
  sink::check_has_schema(report.copy, copy.name());
  if (!report.copy.schema) {
    throw std::invalid_argument(
        fmt::format("{} is empty: no stream was written to it", copy.name()));
  }
  if (report.copy.schema->content == RowContent::ids) {
    throw std::invalid_argument(
        fmt::format("{} has row numbers only, and no values to compare", copy.name()));
  }
  const StreamSchema schema = *report.copy.schema;
  Comparison comparison{schema, tables, report};
  copy.read([&](const RowRecord& row) { comparison.compare(row); });
  comparison.count_absent();
  return report;
}

}  // namespace millrace
