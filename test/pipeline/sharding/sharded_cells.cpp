#include <fmt/format.h>

#include <map>
#include <set>

#include "test/pipeline/sharding/sharded_cell.hpp"
#include "test/support/catch.hpp"
#include "test/support/pairwise.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::uint64_t kSchedules = 3;  // schedules per cell; the first is timed

/// Names the options that determine the cell's parameters.
std::string loop_of(const ShardedCell& cell) {
  if (cell.kind != PipelineKind::semi_sync) return fmt::format("{} {}", cell.ranks, cell.plan);
  return fmt::format("{} {} {} {}", cell.ranks, cell.plan, cell.options.stale.start_batch,
                     cell.options.stale.stash_gradients);
}

}  // namespace

TEST_CASE("each pair of option values is in one of the pairwise rows") {
  const std::vector<std::size_t> options{5, 2, 3, 1, 2, 3};
  const auto rows = pairwise(options);
  for (std::size_t second = 1; second < options.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      std::set<std::pair<std::size_t, std::size_t>> seen;
      for (const auto& row : rows) seen.emplace(row.at(first), row.at(second));
      CHECK(seen.size() == options[first] * options[second]);
    }
  }
  CHECK(rows.size() <= 20);
}

TEST_CASE("every pipeline over sharded tables trains to the bits of the manual loop") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  std::map<std::string, RanksTrained> by_hand;
  for (ShardedCell cell : sharded_cells(kind)) {
    const auto [expected, is_new] = by_hand.try_emplace(loop_of(cell));
    if (is_new) expected->second = trained_by_hand(cell);
    for (std::uint64_t number = 0; number < kSchedules; ++number) {
      cell.schedule = number == 0 ? 0 : seed() * 1000 + number;
      const ShardedCellOutcome outcome = run(cell);
      INFO(cell.name());
      CHECK(outcome.trained == expected->second);
      CHECK(outcome.races == std::vector<std::string>{});
    }
  }
}

}  // namespace millrace::test
