#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "millrace/device/fault.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"
#include "model/expected_rows.hpp"
#include "test/pipeline/model/bags_bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<TableConfig> tables() {
  return {{"shared", 150, 4, Pooling::sum, {"a", "b"}},
          {"wide", 300, 13, Pooling::mean, {"c"}},
          {"averaged", 90, 8, Pooling::mean, {"d", "e"}},
          {"one", 1, 1, Pooling::sum, {"f"}}};
}

const std::vector<std::size_t> kRows{150, 150, 300, 90, 90, 1};

/// A table of one feature, so that ids are rows. Rows with the same remainder share a cache set.
std::vector<TableConfig> one_table(std::size_t rows) {
  return {{"table", rows, 4, Pooling::sum, {"a"}}};
}

/// Embedding tables with or without a cache.
struct Tables : BagsBench {
  Tables(std::optional<TableCache> cache, OptimizerKind kind,
         std::vector<TableConfig> configs = tables())
      : BagsBench(std::move(configs),
                  {.optimizer = row_optimizer(kind), .seed = seed(), .cache = cache}) {}

  HeldRows prefetch(const HostBags& batch) {
    return bags.prefetch(bench.memory.upload(batch), bench.main);
  }
  std::vector<float> state() {
    ModelState state;
    bags.add_state(state, "table");
    return bench.memory.download(state);
  }
  std::set<std::int64_t> cached() {
    const std::vector<std::int64_t> rows = bags.cached_rows(bench.main);
    CHECK(std::set(rows.begin(), rows.end()).size() == rows.size());
    return {rows.begin(), rows.end()};
  }
  CacheCounts counts() { return bags.cache_counts(bench.main); }
};

/// A batch of one bag with these ids of the only feature.
HostBags batch_of(std::vector<std::int64_t> ids) {
  HostBags batch{.features = {"a"}, .batch = 1};
  batch.bags = {{std::move(ids)}};
  return batch;
}

/// `count` rows of set 0 of a cache with `sets` sets, beginning with that set's row `first`.
std::vector<std::int64_t> rows_of_set_0(std::int64_t first, std::int64_t count, std::int64_t sets) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = first; i < first + count; ++i) rows.push_back(i * sets);
  return rows;
}

bool contains(const std::set<std::int64_t>& set, const std::vector<std::int64_t>& rows) {
  return std::all_of(rows.begin(), rows.end(), [&](std::int64_t row) { return set.contains(row); });
}

struct Plan {
  std::optional<TableCache> cache;
  OptimizerKind kind;
  bool weighted = false;
};

/// A loop with stale lookups: batch i+1 is looked up and batch i+2 is prefetched before the update
/// of batch i. Every fifth batch is given up after its lookup, every seventh before it. Tables
/// without a cache run the same loop. Returns all outputs and table states.
std::vector<float> trained(const Plan& plan) {
  Tables tables{plan.cache, plan.kind};
  std::mt19937_64 random{seed() + 3};
  std::vector<HostBags> batches;
  std::vector<float> out;
  const auto keep = [&](const std::vector<float>& values) {
    out.insert(out.end(), values.begin(), values.end());
  };
  constexpr std::size_t kBatches = 12;
  for (std::size_t i = 0; i < kBatches; ++i) {
    batches.push_back(
        draw_bags(random, tables.bags.features(), kRows, 1 + random() % 16, 6, plan.weighted));
  }
  batches[4].bags[3][0].push_back(90);  // out of range
  if (plan.weighted) batches[4].weights[3][0].push_back(1);
  std::vector<HeldRows> held(kBatches);
  const auto looked_up = [&](std::size_t i) {
    if (i < kBatches && i % 7 != 6) keep(tables.look_up(batches[i]));
  };
  held[0] = tables.prefetch(batches[0]);
  looked_up(0);
  for (std::size_t i = 0; i < kBatches; ++i) {
    if (i + 2 < kBatches) held[i + 2] = tables.prefetch(batches[i + 2]);
    looked_up(i + 1);
    std::vector<float> gradient(batches[i].batch * tables.bags.columns());
    for (float& g : gradient) g = static_cast<float>(random() % 2001) / 1000.0F - 1;
    if (i % 7 != 6 && i % 5 != 4) {
      if (plan.weighted) keep(tables.factor_gradients(batches[i], gradient));
      tables.update(batches[i], gradient);
    }
    held[i].release();
    if (i == 6) keep(tables.state());  // while later batches are in flight
  }
  keep(tables.state());
  const auto bad = tables.bags.invalid_id(tables.bench.main);
  REQUIRE(bad);
  CHECK(bad->table == "averaged");
  CHECK(bad->value == 90);
  return out;
}

}  // namespace

TEST_CASE("cached tables give the bits of plain tables with any share of rows in the cache") {
  for (const OptimizerKind kind : kRowOptimizers) {
    for (const bool weighted : {false, true}) {
      const std::vector<float> expected = trained({{}, kind, weighted});
      for (const double load_factor : {0.01, 0.2, 1.0}) {
        for (const CachePolicy policy : kCachePolicies) {
          INFO(to_string(kind) << ", load factor " << load_factor << ", " << to_string(policy));
          CHECK(trained({TableCache{load_factor, policy}, kind, weighted}) == expected);
        }
      }
    }
  }
}

TEST_CASE("a lookup without a prefetch reads the table, and the update finds rows that moved") {
  const HostBags batch = batch_of({3, 70, 3});
  const std::vector<float> gradient(4, 0.5F);
  Tables plain{{}, OptimizerKind::adam, one_table(100)};
  Tables cached{TableCache{0.3}, OptimizerKind::adam, one_table(100)};
  CHECK(cached.look_up(batch) == plain.look_up(batch));
  CHECK(cached.cached().empty());
  const HeldRows later = cached.prefetch(batch);  // moves the rows between lookup and update
  CHECK(cached.cached() == std::set<std::int64_t>{3, 70});
  cached.update(batch, gradient);
  plain.update(batch, gradient);
  CHECK(cached.look_up(batch) == plain.look_up(batch));
  CHECK(cached.state() == plain.state());
}

TEST_CASE("a row of a batch in flight is not evicted before the batch is released") {
  constexpr std::int64_t kSets = 2;
  Tables tables{TableCache{64.0 / 400}, OptimizerKind::sgd, one_table(400)};
  REQUIRE(tables.bags.cache_slots() == 64);
  const auto first = rows_of_set_0(0, 20, kSets), second = rows_of_set_0(20, 20, kSets),
             third = rows_of_set_0(40, 25, kSets);
  HeldRows one = tables.prefetch(batch_of(first));
  HeldRows two = tables.prefetch(batch_of(second));  // 8 of its rows do not fit into the set
  CHECK(contains(tables.cached(), first));
  CHECK(tables.cached().size() == 32);
  CHECK(tables.counts().unplaced == 8);

  const HeldRows nothing_left = tables.prefetch(batch_of(third));
  CHECK(contains(tables.cached(), first));
  CHECK(tables.cached().size() == 32);
  CHECK(tables.counts().unplaced == 8 + 25);

  one.release();  // rows of `one` may be evicted now, rows of `two` may not
  const HeldRows three = tables.prefetch(batch_of(third));
  const auto cached = tables.cached();
  CHECK(contains(cached, {second.begin(), second.begin() + 12}));
  CHECK(tables.counts().unplaced == 8 + 25 + 5);
  CHECK(tables.counts().loads == 20 + 12 + 20);
}

TEST_CASE("a row of two batches in flight stays cached until both are released") {
  Tables tables{TableCache{32.0 / 400}, OptimizerKind::sgd, one_table(400)};
  REQUIRE(tables.bags.cache_slots() == 32);
  HeldRows one = tables.prefetch(batch_of({7}));
  HeldRows two = tables.prefetch(batch_of({7, 8}));
  const auto others = rows_of_set_0(100, 40, 1);
  two.release();
  { const HeldRows all = tables.prefetch(batch_of(others)); }
  CHECK(tables.cached().contains(7));
  one.release();
  { const HeldRows all = tables.prefetch(batch_of(rows_of_set_0(200, 40, 1))); }
  CHECK_FALSE(tables.cached().contains(7));
}

TEST_CASE("only rows that have changed are written back at eviction") {
  Tables plain{{}, OptimizerKind::adagrad, one_table(400)};
  Tables tables{TableCache{32.0 / 400}, OptimizerKind::adagrad, one_table(400)};
  const HostBags changed = batch_of({1, 2, 3});
  const std::vector<float> gradient{1, -2, 3, -4};
  {
    const HeldRows held = tables.prefetch(changed);
    tables.update(changed, gradient);
    plain.update(changed, gradient);
  }
  { const HeldRows held = tables.prefetch(batch_of(rows_of_set_0(100, 32, 1))); }
  CHECK(tables.counts().write_backs == 3);
  { const HeldRows held = tables.prefetch(batch_of(rows_of_set_0(200, 32, 1))); }
  CHECK(tables.counts().write_backs == 3);
  CHECK(tables.look_up(changed) == plain.look_up(changed));
  CHECK(tables.state() == plain.state());
}

TEST_CASE("LRU keeps the rows used last, LFU keeps the rows that most batches used") {
  const CachePolicy policy = GENERATE(from_range(kCachePolicies));
  Tables tables{TableCache{32.0 / 400, policy}, OptimizerKind::sgd, one_table(400)};
  const auto use = [&](const std::vector<std::int64_t>& rows) {
    const HeldRows held = tables.prefetch(batch_of(rows));
  };
  const auto often = rows_of_set_0(0, 16, 1), lately = rows_of_set_0(16, 16, 1);
  for (int i = 0; i < 3; ++i) use(often);
  use(lately);
  use(rows_of_set_0(100, 10, 1));
  CHECK(contains(tables.cached(), policy == CachePolicy::lru ? lately : often));
  CHECK_FALSE(contains(tables.cached(), policy == CachePolicy::lru ? often : lately));
  CHECK(tables.counts().hits == 32);
}

TEST_CASE("skewed ids mostly hit the cache, and a cache of all rows loads each row once") {
  std::mt19937_64 random{seed()};
  const auto draw = [&](std::int64_t hot) {
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 60; ++i) {
      ids.push_back(static_cast<std::int64_t>(random() % (random() % 5 == 0 ? 4000 : hot)));
    }
    return batch_of(ids);
  };
  for (const CachePolicy policy : kCachePolicies) {
    Tables tables{TableCache{0.1, policy}, OptimizerKind::sgd, one_table(4000)};
    for (int i = 0; i < 60; ++i) {
      const HeldRows held = tables.prefetch(draw(150));
    }
    const CacheCounts counts = tables.counts();
    CHECK(counts.hits > 2 * counts.loads);
    CHECK(counts.unplaced == 0);
  }
  Tables all{TableCache{1}, OptimizerKind::sgd, one_table(4000)};
  for (int i = 0; i < 100; ++i) {
    const HeldRows held = all.prefetch(draw(4000));
  }
  CHECK(all.counts().loads == all.cached().size());
  CHECK(all.counts().write_backs == 0);
}

TEST_CASE("for uniform ids the loaded and the unplaced rows match the declared costs") {
  struct Case {
    std::size_t rows, lookups;
    double load_factor;
  };
  for (const Case& of : {Case{4000, 300, 0.25}, Case{4000, 900, 0.5}, Case{400, 200, 0.08}}) {
    Tables tables{TableCache{of.load_factor}, OptimizerKind::sgd, one_table(of.rows)};
    const auto slots = static_cast<double>(tables.bags.cache_slots());
    const model::TableLookups lookups{static_cast<double>(of.rows), 1,
                                      static_cast<double>(of.lookups)};
    const model::ExpectedRows expected{{&lookups, 1}, slots};
    std::mt19937_64 random{seed()};
    constexpr int kWarmUp = 20, kMeasured = 60;
    CacheCounts before;
    for (int i = 0; i < kWarmUp + kMeasured; ++i) {
      if (i == kWarmUp) before = tables.counts();
      std::vector<std::int64_t> ids(of.lookups);
      for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % of.rows);
      const HeldRows held = tables.prefetch(batch_of(ids));
    }
    const CacheCounts after = tables.counts();
    const auto of_batch = [](std::uint64_t count) {
      return static_cast<double>(count) / kMeasured;
    };
    const double loads = of_batch(after.loads - before.loads);
    const double unplaced = of_batch(after.unplaced - before.unplaced);
    CHECK(of_batch(after.hits - before.hits) + loads + unplaced ==
          Approx(expected.unique()).epsilon(0.02));
    CHECK(loads == Approx(expected.loaded_bytes()).epsilon(0.05));
    CHECK(unplaced ==
          Approx(expected.unplaced_share() * expected.unique()).epsilon(0.05).margin(0.5));
  }
}

TEST_CASE("cached tables look up the values that were written to their state") {
  Tables from{TableCache{0.2}, OptimizerKind::adam}, to{TableCache{0.2}, OptimizerKind::adam};
  std::mt19937_64 random{seed()};
  const HostBags batch = draw_bags(random, from.bags.features(), kRows, 9, 6, false);
  const std::vector<float> gradient(9 * from.bags.columns(), 0.25F);
  const HeldRows held = from.prefetch(batch), other = to.prefetch(batch);
  from.update(batch, gradient);
  ModelState written, read;
  from.bags.add_state(read, "table");
  to.bags.add_state(written, "table");
  from.bench.main.synchronize();
  to.bench.main.synchronize();
  REQUIRE(read.tensors.size() == written.tensors.size());
  for (std::size_t t = 0; t < read.tensors.size(); ++t) {
    REQUIRE(read.tensors[t].in_host_memory);
    std::copy_n(read.tensors[t].data, read.tensors[t].size, written.tensors[t].data);
  }
  const HeldRows again = to.prefetch(batch);
  CHECK(to.look_up(batch) == from.look_up(batch));
}

TEST_CASE("an observer finds updated rows of cached tables in their slots or in the table") {
  class Gathers final : public RowUpdateObserver {
   public:
    explicit Gathers(ModelMemory& memory) : memory_(memory) {}
    void rows_updated(const RowUpdate& update) override {
      const std::uint32_t count = memory_.download(update.count, 1)[0];
      const auto rows = memory_.download(static_cast<const std::int32_t*>(update.rows), count);
      const auto slots = memory_.download(update.slots, count);
      const TableView& table = update.tables[0];
      for (std::uint32_t i = 0; i < count; ++i) {
        std::vector<float> row(table.weights + rows[i] * 4, table.weights + rows[i] * 4 + 4);
        at_slots += slots[i] >= 0 ? 1 : 0;
        if (slots[i] >= 0) {
          const std::size_t slot = static_cast<std::size_t>(slots[i]) * update.cache.width;
          row = memory_.download(update.cache.weights + slot, 4);
        }
        gathered[rows[i]] = row;
      }
    }
    std::map<std::int64_t, std::vector<float>> gathered;
    int at_slots = 0;

   private:
    ModelMemory& memory_;
  };
  Tables tables{TableCache{32.0 / 400}, OptimizerKind::adam, one_table(400)};
  Gathers gathers{tables.bench.memory};
  tables.bags.add_observer(gathers);
  const HostBags batch = batch_of(rows_of_set_0(0, 40, 1));
  const HeldRows held = tables.prefetch(batch);
  tables.update(batch, {1, -1, 2, -2});
  CHECK(gathers.at_slots == 32);
  const std::vector<float> weights = tables.state();
  REQUIRE(gathers.gathered.size() == 40);
  for (const auto& [row, found] : gathers.gathered) {
    CHECK(found == std::vector<float>(weights.begin() + row * 4, weights.begin() + row * 4 + 4));
  }
}

TEST_CASE("a failed call in a prefetch leaves the tables unchanged") {
  Tables plain{{}, OptimizerKind::sgd, one_table(400)};
  const HostBags batch = batch_of(rows_of_set_0(0, 40, 1));
  std::uint64_t failed = 0;
  for (std::uint64_t call = 1; call == failed + 1; ++call) {  // until a prefetch makes fewer calls
    CAPTURE(call);
    Tables tables{TableCache{32.0 / 400}, OptimizerKind::sgd, one_table(400)};
    const KeyedJaggedTensor uploaded = tables.bench.memory.upload(batch);
    {
      FaultInjector faults{tables.bench.device};
      faults.fail_call(call, ErrorCode::unknown);
      try {
        const HeldRows held = tables.bags.prefetch(uploaded, tables.bench.main);
      } catch (const DeviceError&) {
      }
      failed += faults.injected();
    }
    const HeldRows held = tables.prefetch(batch);  // the failed prefetch keeps no rows locked
    CHECK(tables.cached().size() == 32);
    CHECK(tables.look_up(batch) == plain.look_up(batch));
    CHECK(tables.state() == plain.state());
  }
  CHECK(failed > 0);
}

TEST_CASE("a cache whose share of rows is 0 or negative is refused") {
  CHECK_THROWS_WITH((Tables{TableCache{0}, OptimizerKind::sgd}), ContainsSubstring("share"));
  CHECK_THROWS_WITH((Tables{TableCache{-1}, OptimizerKind::sgd}), ContainsSubstring("-1"));
}
