#include "millrace/streamer/verify.hpp"

#include <stdexcept>
#include <vector>

#include "millrace/streamer/memory_sink.hpp"
#include "test/support/catch.hpp"

using namespace millrace;

namespace {

const StreamSchema kVerifySchema{RowContent::weights_and_state,
                                 {{"table.a", 3, 2, 1}, {"table.b", 2, 1, 0}}};

/// Reference tables whose numbers encode their place.
ReferenceTables reference(Lineage lineage = {}) {
  return {.read =
              [](const StreamedTable& table, std::int64_t row, std::span<float> weights,
                 std::span<float> state) {
                for (std::size_t i = 0; i < weights.size(); ++i) {
                  weights[i] = static_cast<float>(100 * row) + static_cast<float>(i) +
                               (table.name == "table.b" ? 1000.0F : 0.0F);
                }
                for (float& number : state) number = -static_cast<float>(row);
                return true;
              },
          .lineage = std::move(lineage)};
}

/// Writes all rows with the values of the reference. A test then calls `change`.
void fill(MemorySink& sink) {
  sink.begin(kVerifySchema);
  StepBatch batch;
  batch.commit = {.version = {1, 1}, .step = 1};
  const ReferenceTables tables = reference();
  for (std::uint32_t table = 0; table < 2; ++table) {
    const StreamedTable& of = kVerifySchema.tables[table];
    for (std::uint64_t row = 0; row < of.rows; ++row) {
      std::vector<float> weights(of.width), state(of.state);
      tables.read(of, static_cast<std::int64_t>(row), weights, state);
      batch.add({{1, 1}, table, static_cast<std::int64_t>(row), weights, state});
    }
  }
  sink.write(batch);
}

void change(MemorySink& sink, Version version, float state) {
  StepBatch batch;
  batch.commit = {.version = {version.epoch, version.step + 100}, .step = version.step};
  const std::vector<float> weights{100, 101};
  batch.add({version, 0, 1, weights, {&state, 1}});
  sink.write(batch);
}

}  // namespace

TEST_CASE("a copy with every row to the bit is verified as the same") {
  MemorySink sink;
  fill(sink);
  const VerifyReport report = verify_copy(sink, reference());
  CHECK(report.same());
  CHECK(report.rows == 5);
  CHECK(report.equal == 5);
}

TEST_CASE("a difference in a row's state is found and reported with its place") {
  MemorySink sink;
  fill(sink);
  change(sink, {1, 2}, 0.0F);
  const VerifyReport report = verify_copy(sink, reference());
  CHECK_FALSE(report.same());
  CHECK(report.different == 1);
  REQUIRE(report.first.size() == 1);
  CHECK(report.first[0].table == "table.a");
  CHECK(report.first[0].row == 1);
  CHECK(report.first[0].at == 2);
  CHECK(report.first[0].version == Version{1, 2});
}

TEST_CASE("verification distinguishes minus zero from zero") {
  MemorySink sink;
  fill(sink);
  StepBatch batch;
  batch.commit = {.version = {1, 3}, .step = 3};
  const std::vector<float> weights{0, 1};
  const float zero = 0;  // the state of row 0 is -0
  batch.add({{1, 3}, 0, 0, weights, {&zero, 1}});
  sink.write(batch);
  CHECK(verify_copy(sink, reference()).different == 1);
}

TEST_CASE("rows of steps after the tables' lineage count as newer, not as different") {
  MemorySink sink;
  fill(sink);
  change(sink, {1, 9}, 5.0F);
  Lineage lineage;
  lineage.extend({1, 5});
  const VerifyReport report = verify_copy(sink, reference(lineage));
  CHECK(report.newer == 1);
  CHECK(report.different == 0);
  CHECK_FALSE(report.same());
}

TEST_CASE("rows that are absent from a copy are counted") {
  MemorySink sink;
  sink.begin(kVerifySchema);
  CHECK(verify_copy(sink, reference()).absent == 5);
}

TEST_CASE("rows outside the schema count as damaged") {
  MemorySink sink;
  fill(sink);
  StepBatch batch;
  batch.commit = {.version = {1, 3}, .step = 3};
  const float one = 1;
  batch.add({{1, 3}, 1, 7, {&one, 1}});
  sink.write(batch);
  const VerifyReport report = verify_copy(sink, reference());
  CHECK(report.damaged == 1);
  CHECK_THAT(report.damage, Catch::Matchers::ContainsSubstring("row 7"));
}

TEST_CASE("a sink without a schema or without numbers cannot be verified") {
  MemorySink empty;
  CHECK_THROWS_AS(verify_copy(empty, reference()), std::invalid_argument);
  MemorySink ids;
  ids.begin({RowContent::ids, {{"table.a", 3, 2, 0}}});
  CHECK_THROWS_AS(verify_copy(ids, reference()), std::invalid_argument);
}
