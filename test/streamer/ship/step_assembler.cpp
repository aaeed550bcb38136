#include "ship/step_assembler.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;

namespace {

/// Rows of one source, with one table of one number per row.
struct Given {
  Given(std::size_t source, std::uint64_t step, std::vector<std::uint32_t> ids,
        std::uint64_t missing = 0)
      : ids_(std::move(ids)), values_(ids_.size(), static_cast<float>(step)) {
    rows = {.source = source, .step = step, .missing = missing, .requests = 10 * step + source};
    if (ids_.empty()) return;
    rows.tables = {{.table = static_cast<std::uint32_t>(source),
                    .width = 1,
                    .rows = ids_.size(),
                    .weights = values_.data()}};
    rows.short_ids = ids_;
  }
  CapturedRows rows;

 private:
  std::vector<std::uint32_t> ids_;
  std::vector<float> values_;
};

}  // namespace

TEST_CASE("a step is complete when every source has delivered it") {
  ship::StepAssembler steps{{.epoch = 3, .rank = 1, .ranks = 2}, 2};
  CHECK_FALSE(steps.take());
  steps.add(Given{0, 1, {5, 7}}.rows);
  CHECK_FALSE(steps.take());
  steps.add(Given{1, 1, {5}, 4}.rows);
  const auto step = steps.take();
  REQUIRE(step);
  CHECK(step->batch.commit ==
        StepCommit{.version = {3, 1}, .step = 1, .rank = 1, .ranks = 2, .rows = 3, .missing = 4});
  CHECK(step->requests == std::vector<std::uint64_t>{10, 11});
  CHECK(step->batch.row(0).version == Version{3, 1});
  CHECK_FALSE(steps.take());
}

TEST_CASE("rows of a step that a flush delivers later get their own commit") {
  ship::StepAssembler steps{{.epoch = 1}, 1};
  steps.add(Given{0, 4, {1}, 2}.rows);
  CHECK(steps.take()->batch.commit.version == Version{1, 1});
  steps.add(Given{0, 4, {8, 9}}.rows);
  const auto flushed = steps.take();
  REQUIRE(flushed);
  CHECK(flushed->batch.commit.version == Version{1, 2});
  CHECK(flushed->batch.commit.step == 4);
  CHECK(flushed->batch.commit.missing == 0);
  CHECK(flushed->batch.size() == 2);
}

TEST_CASE("a step whose next part is pending is not complete") {
  ship::StepAssembler steps{{.epoch = 1}, 1};
  Given first{0, 1, {1}, 1};
  first.rows.more = true;
  steps.add(first.rows);
  CHECK_FALSE(steps.take());
  steps.add(Given{0, 1, {2}}.rows);
  CHECK(steps.take()->batch.size() == 2);
}

TEST_CASE("the missing rows of a step do not include later steps of a source") {
  ship::StepAssembler steps{{.epoch = 1}, 2};
  steps.add(Given{0, 1, {1}, 5}.rows);
  steps.add(Given{0, 2, {2}, 0}.rows);
  steps.add(Given{1, 1, {}}.rows);
  auto step = steps.take();
  REQUIRE(step);
  CHECK(step->batch.commit.step == 1);
  CHECK(step->batch.commit.missing == 5);
  CHECK(step->batch.size() == 1);
  steps.add(Given{1, 2, {}}.rows);
  step = steps.take();
  REQUIRE(step);
  CHECK(step->batch.commit.missing == 0);
}

TEST_CASE("a step that a source skipped has missing rows") {
  ship::StepAssembler steps{{.epoch = 1}, 2};
  steps.add(Given{0, 5, {1}}.rows);
  steps.add(Given{1, 5, {}}.rows);
  CHECK(steps.take()->batch.commit.missing == 0);
  steps.add(Given{0, 10, {1, 2, 3}}.rows);  // stands for steps 6 to 10
  steps.add(Given{1, 8, {4}}.rows);
  auto step = steps.take();
  REQUIRE(step);
  CHECK(step->batch.commit.step == 8);
  CHECK(step->batch.commit.missing > 0);
  steps.add(Given{1, 10, {}}.rows);
  step = steps.take();
  REQUIRE(step);
  CHECK(step->batch.commit.step == 10);
  CHECK(step->batch.commit.missing == 0);
  CHECK(step->batch.size() == 3);
}

TEST_CASE("however sources run ahead, each row is delivered once with its newest value") {
  std::mt19937_64 random{test::seed()};
  for (int round = 0; round < 100; ++round) {
    const std::size_t sources = 1 + random() % 3;
    ship::StepAssembler steps{{.epoch = 1}, sources};
    std::vector<std::uint64_t> at(sources);
    std::map<std::pair<std::uint32_t, std::int64_t>, float> given, taken;
    std::uint64_t last = 0, number = 0;
    for (int call = 0; call < 60; ++call) {
      const std::size_t source = random() % sources;
      at[source] += 1 + random() % 3;  // some steps are skipped
      std::set<std::uint32_t> ids;
      for (std::uint64_t i = random() % 4; i > 0; --i) {
        ids.insert(static_cast<std::uint32_t>(random() % 10));
      }
      if (random() % 4 == 0) {  // in two parts, with rows that are in both
        Given part{source, at[source], {ids.begin(), ids.end()}};
        part.rows.more = true;
        steps.add(part.rows);
        for (std::uint64_t i = random() % 3; i > 0; --i) {
          ids.insert(static_cast<std::uint32_t>(random() % 10));
        }
      }
      steps.add(Given{source, at[source], {ids.begin(), ids.end()}}.rows);
      for (const std::uint32_t id : ids) {
        given[{static_cast<std::uint32_t>(source), id}] = static_cast<float>(at[source]);
      }
      while (auto step = steps.take()) {
        CHECK(step->batch.commit.step > last);
        CHECK(step->batch.commit.version.step == ++number);
        last = step->batch.commit.step;
        std::set<std::pair<std::uint32_t, std::int64_t>> of_batch;
        for (std::size_t i = 0; i < step->batch.size(); ++i) {
          const RowRecord row = step->batch.row(i);
          CHECK(row.version.step <= last);
          CHECK(of_batch.insert({row.table, row.row}).second);
          taken[{row.table, row.row}] = row.weights[0];
        }
      }
    }
    const std::uint64_t end = *std::max_element(at.begin(), at.end());
    for (std::size_t source = 0; source < sources; ++source) {
      if (at[source] < end) steps.add(Given{source, end, {}}.rows);
    }
    while (auto step = steps.take()) {
      for (std::size_t i = 0; i < step->batch.size(); ++i) {
        const RowRecord row = step->batch.row(i);
        taken[{row.table, row.row}] = row.weights[0];
      }
    }
    CHECK(taken == given);
  }
}
