#include <rapidcheck.h>

#include <map>
#include <utility>

#include "millrace/streamer/memory_sink.hpp"
#include "millrace/streamer/step_batch.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using Key = std::pair<std::uint32_t, std::int64_t>;

/// Rows of few keys, so that two batches have some in common; each once.
StepBatch any_batch(Version version, Version after) {
  StepBatch batch;
  std::map<Key, Version> rows;
  for (int left = *rc::gen::inRange(0, 20); left > 0; --left) {
    const Key key{*rc::gen::inRange<std::uint32_t>(0, 3), *rc::gen::inRange<std::int64_t>(0, 8)};
    rows[key] = {version.epoch, *rc::gen::inRange<std::uint64_t>(0, version.step + 1)};
  }
  for (const auto& [key, of_row] : rows) {
    const float numbers[] = {static_cast<float>(key.second), static_cast<float>(of_row.step), 7};
    batch.add({.version = of_row,
               .table = key.first,
               .row = key.second,
               .weights = std::span{numbers}.first(key.first),
               .state = std::span{numbers}.last(1)});
  }
  batch.commit.version = version;
  batch.commit.after = after;
  batch.commit.missing = *rc::gen::inRange<std::uint64_t>(0, 5);
  return batch;
}

std::map<Key, std::pair<Version, std::vector<float>>> rows_of(MemorySink& sink) {
  std::map<Key, std::pair<Version, std::vector<float>>> rows;
  sink.read([&](const RowRecord& row) {
    rows[{row.table, row.row}] = {row.version, {row.weights.begin(), row.weights.end()}};
  });
  return rows;
}

}  // namespace

TEST_CASE("a batch has the rows that were added, and its commit counts them", "[record]") {
  CHECK(rc::check([] {
    const auto numbers = *rc::gen::arbitrary<std::vector<float>>();
    const auto keys = *rc::gen::arbitrary<std::vector<std::int64_t>>();
    StepBatch batch;
    for (const std::int64_t key : keys) {
      batch.add({.version = {1, 2}, .table = 9, .row = key, .weights = numbers});
    }
    RC_ASSERT(batch.size() == keys.size());
    RC_ASSERT(batch.commit.rows == keys.size());
    RC_ASSERT(batch.bytes() == keys.size() * record_bytes(numbers.size()));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const RowRecord parsed = parse_record(batch.record(i)).row, seen = batch.row(i);
      RC_ASSERT(seen.row == keys[i]);
      RC_ASSERT(seen.table == 9U);
      RC_ASSERT(seen.weights.data() == parsed.weights.data());
      RC_ASSERT(seen.weights.size() == numbers.size());
      RC_ASSERT(seen.state.empty());
    }
  }));
}

TEST_CASE("two batches as one do to a sink what they do one after the other", "[record]") {
  CHECK(rc::check([] {
    const StepBatch first = any_batch({2, 5}, {});
    const StepBatch second = any_batch({2, 9}, {2, 5});
    const StepBatch both = first.followed_by(second);
    MemorySink in_two, in_one;
    in_two.write(first);
    in_two.write(second);
    in_one.write(both);
    RC_ASSERT(rows_of(in_one) == rows_of(in_two));
    RC_ASSERT(both.commit.version == second.commit.version);
    RC_ASSERT(both.commit.after == first.commit.after);
    RC_ASSERT(both.commit.missing == second.commit.missing);
    RC_ASSERT(both.commit.rows == both.size());
    RC_ASSERT(both.size() == rows_of(in_one).size());
  }));
}

}  // namespace millrace
