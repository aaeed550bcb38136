#include "test/streamer/sink/batch_of_rows.hpp"

#include <array>

namespace millrace::test {

StreamSchema four_wide_schema() {
  return {.tables = {{.name = "table.user", .rows = 100'000, .width = 4}}};
}

StepBatch batch_of_rows(Version version, Version after, std::int64_t first, std::int64_t end,
                        float value) {
  StepBatch batch;
  batch.commit.version = version;
  batch.commit.after = after;
  const std::array<float, 4> numbers{value, 1, 2, 3};
  for (std::int64_t row = first; row < end; ++row) {
    batch.add({.version = version, .row = row, .weights = numbers});
  }
  return batch;
}

std::map<std::int64_t, float> values_in(Sink& sink) {
  std::map<std::int64_t, float> values;
  sink.read([&](const RowRecord& row) { values[row.row] = row.weights[0]; });
  return values;
}

}  // namespace millrace::test
