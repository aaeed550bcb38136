#include "millrace/streamer/change_tracker.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "millrace/device/fault.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

using RowName = std::pair<std::uint32_t, std::int64_t>;  // table, row

/// Two tables that train, and a tracker of their changes.
class Scene {
 public:
  explicit Scene(std::optional<TableCache> cache = {}, const TrackerOptions& options = {})
      : bags(bench.context,
             {{"a", 60, 4, Pooling::sum, {"f"}}, {"b", 200, 3, Pooling::sum, {"g"}, 500, 100}},
             {.optimizer = {.kind = OptimizerKind::adam}, .cache = cache}),
        tracker({bags, {7, 9}}, {bench.context, pinned}, options) {}

  /// @return the rows that the step changes
  std::set<RowName> step() {
    const HostBags batch = draw_bags(random_, bags.features(), {60, 200}, 4, 6, false);
    const BatchTensor gradient = bench.memory.upload(
        std::vector<float>(4 * bags.columns(), 0.5F + static_cast<float>(random_() % 8)));
    const KeyedJaggedTensor ids = bench.memory.upload(batch);
    const HeldRows held = bags.prefetch(ids, bench.main);
    bags.update(ids, nullptr, {gradient.as<float>().data(), bags.columns(), 0}, bench.main);
    std::set<RowName> changed;
    for (const auto& bag : batch.bags[0]) {
      for (const std::int64_t id : bag) changed.insert({7, id});
    }
    for (const auto& bag : batch.bags[1]) {
      for (const std::int64_t id : bag) changed.insert({9, id + 100});
    }
    return changed;
  }
  /// Reads all rows for a consumer. Checks that each row comes once, with its current values.
  std::set<RowName> read(std::string_view consumer, RowContent content = RowContent::ids) {
    std::map<RowName, std::pair<std::vector<float>, std::vector<float>>> rows;
    range = tracker.read(consumer, content, bench.main, [&](const CapturedRows& delivered) {
      delivered.visit(1, [&](const RowRecord& row) {
        const bool first = rows.insert({{row.table, row.row},
                                        {{row.weights.begin(), row.weights.end()},
                                         {row.state.begin(), row.state.end()}}})
                               .second;
        CHECK(first);
      });
      return true;
    });
    CHECK(range.complete);
    CHECK(range.rows == rows.size());
    if (content != RowContent::ids) check_values(rows, content);
    std::set<RowName> names;
    for (const auto& [name, values] : rows) names.insert(name);
    return names;
  }

  ModelBench bench;
  CachingAllocator pinned{bench.ordered, bench.pinned, Policy::pinned()};
  EmbeddingBags bags;
  ChangeTracker tracker;
  ChangeTracker::Range range;

 private:
  template <typename Rows>
  void check_values(const Rows& rows, RowContent content) {
    ModelState state;
    bags.add_state(state, "");
    bench.main.synchronize();
    const auto at = [&](const float* from, std::size_t size) {
      if (!bags.cached()) return bench.memory.download(from, size);
      return std::vector<float>(from, from + size);
    };
    for (const auto& [name, values] : rows) {
      const TableView& table = bags.tables()[name.first == 7 ? 0 : 1];
      const auto row = static_cast<std::size_t>(name.second - table.row_of_whole);
      CHECK(values.first == at(table.weights + row * table.width, table.width));
      if (content == RowContent::weights) continue;
      std::vector<float> expected = at(table.first_moment + row * table.width, table.width);
      const std::vector<float> v = at(table.second_moment + row * table.width, table.width);
      expected.insert(expected.end(), v.begin(), v.end());
      CHECK(values.second == expected);
    }
  }

  std::mt19937_64 random_{seed()};
};

}  // namespace

TEST_CASE("each consumer reads each row that changed since its last read once, with its value") {
  const auto content =
      GENERATE(RowContent::ids, RowContent::weights, RowContent::weights_and_state);
  const bool cached = GENERATE(false, true);
  const std::size_t chunk = GENERATE(std::size_t{600}, std::size_t{1} << 20);
  Scene scene{cached ? std::optional<TableCache>{TableCache{0.2}} : std::nullopt,
              {.chunk_bytes = chunk}};
  scene.tracker.add_consumer("often");
  scene.tracker.add_consumer("seldom");
  std::set<RowName> since_seldom, since_often;
  for (std::uint64_t step = 1; step <= 9; ++step) {
    since_often.merge(scene.step());
    if (step % 2 == 0) continue;
    CHECK(scene.read("often", content) == since_often);
    CHECK(scene.range.after == (step == 1 ? 0 : step - 2));
    CHECK(scene.range.to == step);
    CHECK(scene.tracker.cursor("often") == step);
    since_seldom.merge(since_often);
    since_often.clear();
  }
  CHECK(scene.tracker.cursor("seldom") == 0);
  CHECK(scene.read("seldom", content) == since_seldom);
  CHECK(scene.read("seldom", content).empty());
  scene.tracker.add_consumer("late");
  CHECK(scene.tracker.cursor("late") == 9);
  CHECK(scene.read("late", content).empty());
}

TEST_CASE("rows that were not delivered or were put back are read again") {
  Scene scene{{}, {.chunk_bytes = 600}};
  scene.tracker.add_consumer("c");
  std::set<RowName> changed;
  while (changed.size() < 60) changed.merge(scene.step());  // more rows than a chunk holds
  std::set<RowName> delivered;
  bool first = true;
  const auto range =
      scene.tracker.read("c", RowContent::weights, scene.bench.main, [&](const CapturedRows& rows) {
        if (!std::exchange(first, false)) return false;
        rows.visit(1, [&](const RowRecord& row) { delivered.insert({row.table, row.row}); });
        return true;
      });
  CHECK_FALSE(range.complete);
  CHECK(scene.tracker.cursor("c") == 0);
  CHECK_FALSE(delivered.empty());
  std::set<RowName> rest = scene.read("c");
  for (const RowName& row : delivered) CHECK_FALSE(rest.contains(row));
  rest.merge(delivered);
  CHECK(rest == changed);

  const std::uint64_t read = scene.tracker.cursor("c");
  changed = scene.step();
  const auto put_back = [&](const CapturedRows& rows) {
    scene.tracker.put_back("c", rows, scene.bench.main);
    return true;
  };
  CHECK_FALSE(scene.tracker.read("c", RowContent::ids, scene.bench.main, put_back).complete);
  CHECK(scene.tracker.cursor("c") == read);
  CHECK(scene.read("c") == changed);
  CHECK(scene.range.after == read);
  CHECK(scene.tracker.cursor("c") == read + 1);
}

TEST_CASE("under a memory cap a bit stands for several rows, and all of them are delivered") {
  Scene scene{{}, {.memory_cap = 24 + 36 + 24 + 12}};
  scene.tracker.add_consumer("fine");
  CHECK(scene.tracker.rows_per_bit("fine") == 1);
  scene.tracker.add_consumer("coarse");
  CHECK(scene.tracker.rows_per_bit("coarse") == 4);
  CHECK(scene.tracker.memory() <= 24 + 36 + 24 + 12);
  const std::set<RowName> changed = scene.step();
  const std::set<RowName> delivered = scene.read("coarse", RowContent::weights);
  for (const RowName& row : changed) CHECK(delivered.contains(row));
  CHECK(delivered.size() > changed.size());
  CHECK(delivered.size() <= 4 * changed.size());
  CHECK(scene.read("fine") == changed);
  CHECK_THROWS_WITH(scene.tracker.add_consumer("third"), ContainsSubstring("are left"));
  scene.tracker.remove_consumer("coarse");
  scene.tracker.add_consumer("third");
  CHECK(scene.tracker.consumers() == std::vector<std::string>{"fine", "third"});

  Scene strict{{}, {.memory_cap = 24 + 36 + 20, .over_cap = OverCap::refuse}};
  strict.tracker.add_consumer("fine");
  CHECK_THROWS_WITH(strict.tracker.add_consumer("another"), ContainsSubstring("1 rows a bit"));
}

TEST_CASE("rows of tables that a tracker skips are counted and not delivered") {
  Scene scene{{}, {.skipped_tables = {"b"}}};
  scene.tracker.add_consumer("c");
  std::set<RowName> changed = scene.step();
  const auto skipped = std::erase_if(changed, [](const RowName& row) { return row.first == 9; });
  CHECK(scene.read("c", RowContent::weights) == changed);
  CHECK(scene.tracker.counts().skipped == skipped);
}

TEST_CASE("an update that could not be recorded marks all rows as changed") {
  Scene scene;
  scene.tracker.add_consumer("c");
  class Fails final : public RowUpdateObserver {
   public:
    explicit Fails(Scene& scene) : scene_(scene), faults_(scene.bench.device) {
      scene.bags.remove_observer(scene.tracker);
      scene.bags.add_observer(*this);
    }
    ~Fails() override {
      scene_.bags.remove_observer(*this);
      scene_.bags.add_observer(scene_.tracker);
    }
    Fails(const Fails&) = delete;
    Fails& operator=(const Fails&) = delete;
    void rows_updated(const RowUpdate& update) override {
      faults_.fail_each(Call::launch, ErrorCode::unknown);
      scene_.tracker.rows_updated(update);
      faults_.clear();
    }

   private:
    Scene& scene_;
    FaultInjector faults_;
  };
  {
    Fails fails{scene};
    scene.step();
  }
  CHECK(scene.tracker.counts().failures == 1);
  CHECK(scene.read("c", RowContent::weights).size() == 260);
  CHECK(scene.read("c").empty());
}

TEST_CASE("a read that fails loses no changed row") {
  for (std::uint64_t call = 1; call < 14; ++call) {
    Scene scene{{}, {.chunk_bytes = 2000}};
    scene.tracker.add_consumer("c");
    const std::set<RowName> changed = scene.step();
    std::set<RowName> delivered;
    const auto visit = [&](const CapturedRows& rows) {
      rows.visit(1, [&](const RowRecord& row) { delivered.insert({row.table, row.row}); });
      return true;
    };
    {
      FaultInjector faults{scene.bench.device};
      faults.fail_call(call, ErrorCode::unknown);
      try {
        scene.tracker.read("c", RowContent::weights, scene.bench.main, visit);
      } catch (const DeviceError&) {
      }
    }
    scene.tracker.read("c", RowContent::weights, scene.bench.main, visit);
    CHECK(delivered == changed);
  }
}
