#include "test/conformance/sink/sink_conformance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace millrace::test {
namespace {

std::vector<SinkFixture>& fixtures() {
  static std::vector<SinkFixture> all;
  return all;
}

// A number that follows from the key, the version and the position, so that a mixed-up row shows.
float number_of(RowKey key, Version version, std::uint32_t i) {
  const std::uint64_t mixed = (static_cast<std::uint64_t>(key.second) * 31 + key.first) * 1009 +
                              version.epoch * 101 + version.step * 7 + i;
  return static_cast<float>(mixed * 0x9E3779B97F4A7C15U >> 40U) * 0x1p-20F - 8;
}

std::string shown(const RowKey& key) {
  return fmt::format("table {}, row {}", key.first, key.second);
}

}  // namespace

bool add_sink_fixture(SinkFixture fixture) {
  fixtures().push_back(std::move(fixture));
  return true;
}

const std::vector<SinkFixture>& sink_fixtures() { return fixtures(); }

void over_every_sink(const FixtureBody& body) {
  for (const SinkFixture& fixture : fixtures()) {
    if (!fixture.absent.empty()) continue;
    DYNAMIC_SECTION(fixture.name) { body(fixture); }
  }
}

void over_sinks(bool SinkFixture::*needed, const FixtureBody& body) {
  over_every_sink([&](const SinkFixture& fixture) {
    if (fixture.*needed) return body(fixture);
    SUCCEED("nothing that this kind promises");
  });
}

Rows rows_of(Sink& sink) {
  Rows rows;
  sink.read([&](const RowRecord& row) {
    const bool first =
        rows.emplace(RowKey{row.table, row.row}, RowValue{row.version,
                                                          {row.weights.begin(), row.weights.end()},
                                                          {row.state.begin(), row.state.end()}})
            .second;
    if (!first) throw std::logic_error(shown({row.table, row.row}) + " is read twice");
  });
  return rows;
}

std::string difference(const Rows& found, const Rows& expected) {
  for (const auto& [key, value] : expected) {
    const auto there = found.find(key);
    if (there == found.end()) return shown(key) + " is not there";
    if (there->second.version != value.version) {
      return fmt::format("{} is of {} and not of {}", shown(key), to_string(there->second.version),
                         to_string(value.version));
    }
    if (there->second != value) return shown(key) + " has other numbers";
  }
  for (const auto& [key, value] : found) {
    if (!expected.contains(key)) return shown(key) + " was never written";
  }
  return {};
}

void fold(Rows& rows, const StepBatch& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const RowRecord row = batch.row(i);
    RowValue& kept = rows[{row.table, row.row}];
    if (kept.version >= row.version) continue;
    kept = {row.version,
            {row.weights.begin(), row.weights.end()},
            {row.state.begin(), row.state.end()}};
  }
}

void write_again(Sink& sink, const StepBatch& batch) {
  try {
    sink.write(batch);
  } catch (const SinkError& error) {
    if (error.kind() != SinkError::Kind::overtaken) throw;
    REQUIRE(sink.state().commits.at(batch.commit.rank).version.epoch > batch.commit.version.epoch);
  }
}

StreamSchema some_schema(RowContent content, unsigned tables) {
  StreamSchema schema{.content = content};
  for (unsigned i = 0; i < tables; ++i) {
    schema.tables.push_back({.name = fmt::format("table.{}", i),
                             .rows = i % 3 == 1 ? std::uint64_t{1} << 40U : 50 + i,
                             .width = 1 + i * 5 % 33,
                             .state = i % 4 == 3 ? 0 : 1 + i % 2 * (i * 5 % 33)});
  }
  return schema;
}

void add_row(StepBatch& batch, const StreamSchema& schema, RowKey key, Version version) {
  const StreamedTable& table = schema.tables.at(key.first);
  const std::uint32_t width = schema.content == RowContent::ids ? 0 : table.width;
  const std::uint32_t state = schema.content == RowContent::weights_and_state ? table.state : 0;
  std::vector<float> numbers;
  for (std::uint32_t i = 0; i < width + state; ++i) numbers.push_back(number_of(key, version, i));
  batch.add({.version = version,
             .table = key.first,
             .row = key.second,
             .weights = std::span{numbers}.first(width),
             .state = std::span{numbers}.subspan(width)});
}

StreamProgram::StreamProgram(std::uint64_t seed, unsigned ranks) : random_(seed), newest_(ranks) {
  constexpr RowContent kContents[] = {RowContent::ids, RowContent::weights,
                                      RowContent::weights_and_state};
  schema_ = some_schema(kContents[below(3)], static_cast<unsigned>(1 + below(6)));
}

std::size_t StreamProgram::below(std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random_);
}

RowKey StreamProgram::some_key() {
  if (!seen_.empty() && below(2) == 0) return seen_[below(seen_.size())];
  const auto table = static_cast<std::uint32_t>(below(schema_.tables.size()));
  seen_.emplace_back(table, static_cast<std::int64_t>(below(schema_.tables[table].rows)));
  return seen_.back();
}

StepBatch StreamProgram::next(std::uint32_t rank) {
  // A restart begins a new epoch and a new chain of commits.
  Version& newest = newest_[rank];
  const bool restarted = newest.epoch == 0 || below(8) == 0;
  const Version version = restarted ? Version{newest.epoch + 1, below(5)}
                                    : Version{newest.epoch, newest.step + 1 + below(3)};
  StepBatch batch;
  std::set<RowKey> keys;
  for (std::size_t left = below(30); left > 0; --left) keys.insert(some_key());
  for (const RowKey& key : keys) {
    Version of_row = version;
    if (below(4) == 0) {
      of_row = {1 + below(version.epoch), below(version.step + 1)};
    }
    add_row(batch, schema_, key, of_row);
  }
  batch.commit.version = version;
  batch.commit.step = version.step;
  batch.commit.after = restarted ? Version{} : newest;
  batch.commit.rank = rank;
  batch.commit.ranks = ranks();
  batch.commit.missing = below(3) == 0 ? below(100) : 0;
  newest = version;
  return batch;
}

}  // namespace millrace::test
