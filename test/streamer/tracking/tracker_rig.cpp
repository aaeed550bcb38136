#include "test/streamer/tracking/tracker_rig.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::test {

TrackerRig::Rows TrackerRig::read(std::string_view consumer, RowContent content, Stream& stream,
                                  const Visits& visits) {
  Rows rows;
  chunks.clear();
  if (visits.ordered) use_tables_on(stream);
  range = tracker->read(consumer, content, stream, [&](const CapturedRows& delivered) {
    const std::size_t number = chunks.size();
    if (number == visits.refused) return false;
    Chunk& chunk = chunks.emplace_back(Chunk{.after = delivered.after});
    for (std::size_t i = 0; i < delivered.size(); ++i) chunk.ids.push_back(delivered.id(i));
    if (number == visits.put_back) tracker->put_back(consumer, delivered, stream);
    checking.host_reads(delivered.short_ids.data(), delivered.short_ids.size_bytes(), "visit");
    checking.host_reads(delivered.long_ids.data(), delivered.long_ids.size_bytes(), "visit");
    delivered.visit(1, [&](const RowRecord& row) {
      checking.host_reads(row.weights.data(), row.weights.size_bytes(), "visit");
      checking.host_reads(row.state.data(), row.state.size_bytes(), "visit");
      const Delivered values{{row.weights.begin(), row.weights.end()},
                             {row.state.begin(), row.state.end()}};
      if (!rows.insert({{row.table, row.row}, values}).second) {
        throw std::logic_error{fmt::format("row {} of table {} twice", row.row, row.table)};
      }
    });
    return true;
  });
  return rows;
}

void TrackerRig::put_back(std::string_view consumer, const Chunk& chunk, Stream& stream) {
  use_tables_on(stream);
  const std::vector<std::uint32_t> short_ids(chunk.ids.begin(), chunk.ids.end());
  CapturedRows rows{.after = chunk.after};
  if (bags->row_type() == IndexType::int32) {
    rows.short_ids = short_ids;
  } else {
    rows.long_ids = chunk.ids;
  }
  tracker->put_back(consumer, rows, stream);
}

std::string TrackerRig::compare(const Rows& rows, RowContent content) {
  const TableContents now = contents();
  const auto same = [](const std::vector<float>& delivered, const std::vector<float>& all,
                       std::size_t row, std::size_t width, bool is_delivered) {
    if (!is_delivered || width == 0) return delivered.empty();
    return delivered.size() == width &&
           std::equal(delivered.begin(), delivered.end(),
                      all.begin() + static_cast<std::ptrdiff_t>(row * width));
  };
  for (const auto& [name, delivered] : rows) {
    if (!has(name)) return fmt::format("there is no row {} of table {}", name.second, name.first);
    const std::size_t t = name.first - kFirstTable;
    const TableView& table = bags->tables()[t];
    const auto row = static_cast<std::size_t>(name.second - table.row_of_whole);
    if (!same(delivered.weights, now.weights[t], row, table.width, content != RowContent::ids) ||
        !same(delivered.state, now.state[t], row,
              table.first_moment_width + table.second_moment_width,
              content == RowContent::weights_and_state)) {
      return fmt::format("row {} of table {} is another", name.second, name.first);
    }
  }
  return "";
}

std::set<TrainingRig::RowName> names_of(const TrackerRig::Rows& rows) {
  std::set<TrainingRig::RowName> names;
  for (const auto& [name, delivered] : rows) names.insert(name);
  return names;
}

}  // namespace millrace::test
