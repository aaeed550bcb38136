#include "ship/backlog.hpp"

#include <map>
#include <random>
#include <utility>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;

TEST_CASE("a backlog has the newest value of each row, and one commit for all its steps") {
  std::mt19937_64 random{test::seed()};
  for (int round = 0; round < 50; ++round) {
    ship::Backlog backlog;
    std::map<std::pair<std::uint32_t, std::int64_t>, std::pair<Version, float>> newest;
    const std::uint64_t steps = 1 + random() % 20;
    std::uint64_t delivered = 0, superfluous = 0;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      StepBatch batch;
      batch.commit = {.version = {1, step}, .after = {1, step - 1}, .missing = step};
      for (std::int64_t row = 0; row < 30; ++row) {
        if (random() % 3 != 0) continue;
        const auto table = static_cast<std::uint32_t>(row % 3);
        const float value = static_cast<float>(random() % 1000);
        batch.add({.version = {1, step}, .table = table, .row = row, .weights = {&value, 1}});
        newest[{table, row}] = {{1, step}, value};
      }
      delivered += batch.size();
      superfluous += backlog.add(batch);
    }
    CHECK(delivered - superfluous == newest.size());
    CHECK(backlog.rows() == newest.size());
    CHECK(backlog.bytes() == newest.size() * record_bytes(1));
    const StepBatch all = backlog.take();
    CHECK(backlog.empty());
    CHECK(all.commit ==
          StepCommit{
              .version = {1, steps}, .after = {1, 0}, .rows = newest.size(), .missing = steps});
    REQUIRE(all.size() == newest.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const RowRecord row = all.row(i);
      const auto& [version, value] = newest.at({row.table, row.row});
      CHECK(row.version == version);
      CHECK(row.weights[0] == value);
    }
  }
}
