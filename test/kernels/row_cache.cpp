#include "model/host/row_cache.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/row_places.hpp"
#include "model/shapes.hpp"
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/row_cache.cu"
#undef cuda

using namespace millrace;
using namespace millrace::model;
using namespace millrace::test;
using namespace millrace::test::kernels;

namespace {

struct Parameters {
  std::vector<float> weights, m, v;
  bool operator==(const Parameters&) const = default;
};

/// Tables and their cache, on one side.
struct Cached {
  Parameters home, slots;
  std::vector<std::uint32_t> tags;
  std::vector<SlotState> states;
  std::vector<CacheCounts> counts{1};

  [[nodiscard]] auto states_told() const {
    std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> told;
    for (const SlotState& state : states) told.emplace_back(state.stamp, state.uses, state.dirty);
    return told;
  }
  [[nodiscard]] auto counts_told() const {
    return std::tuple{counts[0].hits, counts[0].loads, counts[0].write_backs, counts[0].unplaced};
  }
  /// A step that changes what is in the cache.
  void train(std::mt19937_64 random) {
    for (std::size_t slot = 0; slot < tags.size(); ++slot) {
      if (tags[slot] == kNoTag || random() % 3 != 0) continue;
      states[slot].dirty = 1;
      const std::size_t width = slots.weights.size() / tags.size();
      for (std::size_t d = 0; d < width; ++d) slots.weights[slot * width + d] += 1;
      if (!slots.m.empty()) slots.m[slot * slots.m.size() / tags.size()] += 2;
      if (!slots.v.empty()) slots.v[slot * width] += 3;
    }
  }
};

void require_same(const Cached& there, const Cached& here) {
  REQUIRE(there.tags == here.tags);
  REQUIRE(there.states_told() == here.states_told());
  REQUIRE(there.counts_told() == here.counts_told());
  REQUIRE(there.home == here.home);
  REQUIRE(there.slots == here.slots);
}

/// Of moves, those that there are: what else is told of the others does not matter.
std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> told(
    const std::vector<RowMove>& moves) {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> told;
  for (const RowMove& move : moves) {
    told.emplace_back(move.row, move.evicted, move.row < 0 ? 0 : move.slot);
  }
  return told;
}

template <typename Key>
class CachedTables {
 public:
  explicit CachedTables(std::mt19937_64& random)
      : tables_(draw_tables(random)), least_used_(random() % 2 == 0) {
    shape_.sets = 1 + random() % 6;
    shape_.of_set = std::max<std::uint64_t>(1, (tables_.rows + shape_.sets - 1) / shape_.sets);
    const std::size_t slots = shape_.sets * kWays;
    const unsigned kind = random() % 4;  // sgd, adagrad, row-wise, adam
    layout_ = {tables_.widest + random() % 3, kind == 2};
    const auto draw = [&](std::size_t scalars, std::size_t rows) {
      return Parameters{draw_numbers(random, scalars),
                        draw_numbers(random, kind == 0   ? 0
                                             : kind == 2 ? rows
                                                         : scalars),
                        draw_numbers(random, kind == 3 ? scalars : 0)};
    };
    here_.home = draw(tables_.scalars, tables_.rows);
    here_.slots = draw(slots * layout_.width, slots);
    here_.tags.assign(slots, kNoTag);
    here_.states.resize(slots);
    there_ = here_;
  }

  template <typename Id, typename Offset>
  void prefetch(std::mt19937_64& random, std::uint64_t number) {
    const auto bags = draw_bags<Id, Offset>(random, tables_, random() % 2 == 0);
    const std::vector<Key> keys = compare_keys(bags);
    const Turn turn{number, number - std::min<std::uint64_t>(number - 1, random() % 3),
                    least_used_};
    bring(unique(keys), turn);
    locate(bags);
    locate_rows(random);
    const std::mt19937_64 training{random()};
    here_.train(training);
    there_.train(training);
  }

  void empty() {
    const auto empty = [&](Cached& cached, auto&& empty_slots) {
      empty_slots(std::span{cached.home.weights}, std::span{cached.home.m},
                  std::span{cached.home.v}, std::span{cached.tags}, std::span{cached.states},
                  std::span<const float>{cached.slots.weights},
                  std::span<const float>{cached.slots.m}, std::span<const float>{cached.slots.v},
                  std::span<const Lookup>{tables_.lookups}, shape_, layout_);
    };
    empty(here_, [](auto... all) { host::empty_slots<float>(all...); });
    empty(there_, [](auto... all) { on_host::empty_slots({}, all...); });
    require_same(there_, here_);
  }

 private:
  template <typename Id, typename Offset>
  std::vector<Key> compare_keys(const DrawnBags<Id, Offset>& bags) {
    const auto found = [&](auto&& cache_keys) {
      std::vector<Key> keys(bags.ids.size());
      std::vector<std::uint32_t> positions(keys.size());
      cache_keys(std::span{keys}, std::span{positions}, std::span<const Lookup>{tables_.lookups},
                 std::span<const Id>{bags.ids}, std::span<const Offset>{bags.offsets}, bags.batch,
                 shape_);
      return std::pair{keys, positions};
    };
    const auto keys = found([](auto... all) { host::cache_keys<Key, Id, Offset>(all...); });
    REQUIRE(found([](auto... all) { on_host::cache_keys<Key, Id, Offset>({}, all...); }) == keys);
    return keys.first;
  }

  /// As many as the batch has ids; those that no table has are left out.
  std::pair<std::vector<Key>, std::vector<std::uint32_t>> unique(std::vector<Key> keys) const {
    const std::size_t size = keys.size();
    std::erase(keys, static_cast<Key>(shape_.keys()));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    const std::vector<std::uint32_t> count{static_cast<std::uint32_t>(keys.size())};
    keys.resize(size, static_cast<Key>(-1));
    return {keys, count};
  }

  void bring(const std::pair<std::vector<Key>, std::vector<std::uint32_t>>& unique,
             const Turn& turn) {
    const auto bring = [&](Cached& cached, auto&& bring_rows) {
      std::vector<RowMove> moves(unique.first.size(), {-5, -5, -5});
      bring_rows(std::span{cached.slots.weights}, std::span{cached.slots.m},
                 std::span{cached.slots.v}, std::span{cached.home.weights},
                 std::span{cached.home.m}, std::span{cached.home.v}, std::span{cached.tags},
                 std::span{cached.states}, std::span{cached.counts}, std::span{moves},
                 std::span<const Lookup>{tables_.lookups}, std::span<const Key>{unique.first},
                 std::span<const std::uint32_t>{unique.second}, shape_, layout_, turn);
      return told(moves);
    };
    const auto moves = bring(here_, [](auto... all) { host::bring_rows<float, Key>(all...); });
    REQUIRE(bring(there_, [](auto... all) { on_host::bring_rows<Key>({}, all...); }) == moves);
    require_same(there_, here_);
  }

  template <typename Id, typename Offset>
  void locate(const DrawnBags<Id, Offset>& bags) {
    const auto located = [&](auto&& locate_ids) {
      std::vector<std::int32_t> slots(bags.ids.size(), -7);
      locate_ids(std::span{slots}, std::span<const std::uint32_t>{here_.tags},
                 std::span<const Lookup>{tables_.lookups}, std::span<const Id>{bags.ids},
                 std::span<const Offset>{bags.offsets}, bags.batch, shape_);
      return slots;
    };
    REQUIRE(located([](auto... all) { on_host::locate_ids<Id, Offset>({}, all...); }) ==
            located([](auto... all) { host::locate_ids<Id, Offset>(all...); }));
  }

  void locate_rows(std::mt19937_64& random) {
    std::vector<Key> rows(random() % 200);
    for (Key& row : rows) row = static_cast<Key>(random() % std::max<std::size_t>(1, tables_.rows));
    const std::vector<std::uint32_t> count{
        static_cast<std::uint32_t>(random() % (rows.size() + 1))};
    const auto located = [&](auto&& locate_rows) {
      std::vector<std::int32_t> slots(rows.size(), -7);
      locate_rows(std::span{slots}, std::span<const std::uint32_t>{here_.tags},
                  std::span<const Key>{rows}, std::span<const std::uint32_t>{count}, shape_);
      return slots;
    };
    REQUIRE(located([](auto... all) { on_host::locate_rows<Key>({}, all...); }) ==
            located([](auto... all) { host::locate_rows<Key>(all...); }));
  }

  DrawnTables tables_;
  CacheShape shape_;
  RowLayout layout_;
  bool least_used_;
  Cached here_, there_;
};

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes a cache holds, brings and gives back rows as one by one", "",
                   std::uint32_t, std::uint64_t) {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    CachedTables<TestType> tables{random};
    std::uint64_t number = 0;
    for (int again = 0; again < 2; ++again) {
      tables.template prefetch<std::int32_t, std::int32_t>(random, ++number);
      tables.template prefetch<std::int32_t, std::int64_t>(random, ++number);
      tables.template prefetch<std::int64_t, std::int32_t>(random, ++number);
      tables.template prefetch<std::int64_t, std::int64_t>(random, ++number);
    }
    tables.empty();
  }
}
