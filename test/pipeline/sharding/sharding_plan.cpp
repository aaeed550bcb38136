#include "millrace/pipeline/sharding/sharding_plan.hpp"

#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;

SparseNNConfig with_tables(std::vector<TableConfig> tables) {
  SparseNNConfig config;
  config.tables = std::move(tables);
  config.table_optimizer = {.kind = OptimizerKind::sgd};
  return config;
}

TableConfig table(const std::string& name, std::size_t rows, std::size_t width,
                  Pooling pooling = Pooling::sum) {
  return {name, rows, width, pooling, {"of " + name}};
}

}  // namespace

TEST_CASE("a plan puts whole tables on the rank with the least work") {
  const SparseNNConfig config = with_tables({table("a", 10'000, 64), table("b", 40'000, 16),
                                             table("c", 40'000, 16), table("d", 20'000, 32)});
  const ShardingPlan plan = plan_sharding(config, 2);
  CHECK(plan.tables[0] == TablePlacement{Sharding::table_wise, 0});
  CHECK(plan.tables[3] == TablePlacement{Sharding::table_wise, 1});
  CHECK(plan.tables[1] == TablePlacement{Sharding::table_wise, 1});
  CHECK(plan.tables[2] == TablePlacement{Sharding::table_wise, 1});
}

TEST_CASE("a small table is data-parallel, a table over the even share is split by rows") {
  const SparseNNConfig config =
      with_tables({table("small", 100, 8), table("large", 1'000'000, 8), table("other", 9000, 8)});
  const ShardingPlan plan = plan_sharding(config, 4);
  CHECK(plan.tables[0].sharding == Sharding::data_parallel);
  CHECK(plan.tables[1].sharding == Sharding::row_wise);
  CHECK(plan.tables[2].sharding == Sharding::table_wise);
}

TEST_CASE("plan_alike places all tables alike, except tables that cannot be split by rows") {
  SparseNNConfig config = with_tables({table("a", 100, 8), table("b", 5, 8), table("c", 100, 8)});
  config.position_weights = {{"of a", 3}, {"of c", (1 << 24) + 1}};
  for (const Sharding sharding : {Sharding::table_wise, Sharding::data_parallel}) {
    for (const TablePlacement& placement : plan_alike(config, 4, sharding).tables) {
      CHECK(placement.sharding == sharding);
    }
  }
  const ShardingPlan by_rows = plan_alike(config, 4, Sharding::row_wise);
  by_rows.check(config);
  CHECK(by_rows.tables[0].sharding == Sharding::row_wise);
  CHECK(by_rows.tables[1].sharding == Sharding::table_wise);  // 5 rows are not 4 blocks of 2
  CHECK(by_rows.tables[2].sharding == Sharding::table_wise);
  CHECK(by_rows.tables[1].rank != by_rows.tables[2].rank);
}

TEST_CASE("a large table with too few rows to split stays whole") {
  const SparseNNConfig config = with_tables({table("wide", 5, 4096), table("small", 100, 8)});
  const ShardingPlan plan = plan_sharding(config, 4);
  plan.check(config);
  CHECK(plan.tables[0].sharding == Sharding::table_wise);
}

TEST_CASE("a plan stays within the memory of the ranks, or names the table that does not fit") {
  const SparseNNConfig config =
      with_tables({table("a", 1000, 64, Pooling::mean), table("b", 1000, 64, Pooling::mean)});
  const ShardingPlan plan = plan_sharding(
      config, 2, {.data_parallel_bytes = 0, .rank_bytes = 300'000, .split_rows = false});
  CHECK(plan.tables[0].rank != plan.tables[1].rank);
  CHECK_THROWS_WITH(
      plan_sharding(config, 2,
                    {.data_parallel_bytes = 0, .rank_bytes = 200'000, .split_rows = false}),
      ContainsSubstring("table 'a' of 256000 bytes fits on no rank"));
}

TEST_CASE("a plan is unchanged by JSON, and tables that it does not name keep their placement") {
  const SparseNNConfig config = sharded_config();
  const ShardingPlan mixed = plan_named("mixed", config, 3);
  CHECK(parse_sharding_plan(to_json(mixed, config), "plan", config,
                            plan_named("data-parallel", config, 3)) == mixed);
  const ShardingPlan one = parse_sharding_plan(R"({"shops": {"sharding": "row-wise"}})", "plan",
                                               config, plan_named("table-wise", config, 3));
  CHECK(one.tables[3].sharding == Sharding::row_wise);
  CHECK(one.tables[0].sharding == Sharding::table_wise);
}

TEST_CASE("a plan that does not fit the model is refused, with the table and the reason") {
  const SparseNNConfig config = sharded_config();
  const ShardingPlan plan = plan_named("table-wise", config, 2);
  const auto read = [&](const char* json) {
    return parse_sharding_plan(json, "plan.json", config, plan);
  };
  CHECK_THROWS_WITH(read(R"({"nobody": {"sharding": "row-wise"}})"), ContainsSubstring("nobody"));
  CHECK_THROWS_WITH(read(R"({"users": {"sharding": "column-wise"}})"),
                    ContainsSubstring("unknown sharding 'column-wise'"));
  CHECK_THROWS_WITH(read(R"({"users": {"sharding": "table-wise", "rank": 2}})"),
                    ContainsSubstring("users.rank"));
  CHECK_THROWS_WITH(read(R"({"users": {"sharding": "row-wise", "rank": 1}})"),
                    ContainsSubstring("rank"));
  SparseNNConfig processed = config;
  processed.position_weights = {{"friend", 1 << 24}};
  CHECK_NOTHROW(plan_named("row-wise", processed, 2).check(processed));
  processed.position_weights = {{"friend", (1 << 24) + 1}};
  CHECK_THROWS_WITH(
      plan_named("row-wise", processed, 2).check(processed),
      ContainsSubstring("'friend' of table 'users' has more than 16777216 position weights"));
  ShardingPlan short_plan = plan;
  short_plan.tables.pop_back();
  CHECK_THROWS_WITH(short_plan.check(config), ContainsSubstring("the plan places 3 tables"));
  SparseNNConfig few = config;
  few.tables[2].rows = 5;
  ShardingPlan by_rows = plan_named("row-wise", few, 4);
  CHECK_THROWS_WITH(by_rows.check(few), ContainsSubstring("too few for each of 4 ranks"));
}

}  // namespace millrace::test
