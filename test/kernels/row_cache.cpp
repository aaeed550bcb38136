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
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/row_cache.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

struct Parameters {
  std::vector<float> weights, first, second;
  bool operator==(const Parameters&) const = default;

  [[nodiscard]] RowStorage<float> storage() {
    return {updates(weights), updates(first), updates(second)};
  }
};

/// Tables and their cache, for one of the two kernels.
struct Cached {
  Parameters home, slots;
  std::vector<std::uint32_t> tags;
  std::vector<SlotState> states;
  std::vector<CacheCounts> counts{1};

  [[nodiscard]] auto states_told() const {
    std::vector<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>> all;
    for (const SlotState& state : states) all.emplace_back(state.stamp, state.uses, state.dirty);
    return all;
  }
  [[nodiscard]] auto counts_told() const {
    return std::tuple{counts[0].hits, counts[0].loads, counts[0].write_backs, counts[0].unplaced};
  }
  /// A step that changes rows in the cache.
  void train(std::mt19937_64 random) {
    for (std::size_t slot = 0; slot < tags.size(); ++slot) {
      if (tags[slot] == kNoTag || random() % 3 != 0) continue;
      states[slot].dirty = 1;
      const std::size_t width = slots.weights.size() / tags.size();
      for (std::size_t d = 0; d < width; ++d) slots.weights[slot * width + d] += 1;
      if (!slots.first.empty()) slots.first[slot * slots.first.size() / tags.size()] += 2;
      if (!slots.second.empty()) slots.second[slot * width] += 3;
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

/// The meaningful parts of moves. The slot of a move without a row is arbitrary.
std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> real_moves(
    const std::vector<RowMove>& moves) {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> all;
  for (const RowMove& move : moves) {
    all.emplace_back(move.row, move.evicted, move.row < 0 ? 0 : move.slot);
  }
  return all;
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
    const auto arguments = [&](Cached& cached) {
      return EmptySlotsArguments<float>{
          .home = cached.home.storage(),
          .cached = {reads(cached.slots.weights), reads(cached.slots.first),
                     reads(cached.slots.second)},
          .slots = {updates(cached.tags), updates(cached.states)},
          .lookups = reads(tables_.lookups),
          .shape = shape_,
          .layout = layout_};
    };
    host::empty_slots(arguments(here_));
    on_host::empty_slots({}, arguments(there_));
    require_same(there_, here_);
  }

 private:
  template <typename Id, typename Offset>
  std::vector<Key> compare_keys(const DrawnBags<Id, Offset>& bags) {
    const auto found = [&](auto&& cache_keys) {
      std::vector<Key> keys(bags.ids.size());
      std::vector<std::uint32_t> positions(keys.size());
      cache_keys(CacheKeysArguments<Key, Id, Offset>{.keys = writes(keys),
                                                     .positions = writes(positions),
                                                     .bags = layout_of(bags),
                                                     .ids = reads(bags.ids),
                                                     .shape = shape_});
      return std::pair{keys, positions};
    };
    const auto keys = found([](const auto& all) { host::cache_keys(all); });
    REQUIRE(found([](const auto& all) { on_host::cache_keys({}, all); }) == keys);
    return keys.first;
  }

  /// The distinct keys, sorted, without the key of invalid ids. The list is as long as the batch
  /// has ids.
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
      bring_rows(
          BringRowsArguments<float, Key>{.cached = cached.slots.storage(),
                                         .home = cached.home.storage(),
                                         .slots = {updates(cached.tags), updates(cached.states)},
                                         .counts = updates(cached.counts),
                                         .moves = writes(moves),
                                         .lookups = reads(tables_.lookups),
                                         .wanted = {reads(unique.first), reads(unique.second)},
                                         .shape = shape_,
                                         .layout = layout_,
                                         .turn = turn});
      return real_moves(moves);
    };
    const auto moves = bring(here_, [](const auto& all) { host::bring_rows(all); });
    REQUIRE(bring(there_, [](const auto& all) { on_host::bring_rows({}, all); }) == moves);
    require_same(there_, here_);
  }

  template <typename Id, typename Offset>
  void locate(const DrawnBags<Id, Offset>& bags) {
    const auto located = [&](auto&& locate_ids) {
      std::vector<std::int32_t> slots(bags.ids.size(), -7);
      locate_ids(LocateIdsArguments<Id, Offset>{.slots = writes(slots),
                                                .tags = reads(here_.tags),
                                                .bags = layout_of(bags),
                                                .ids = reads(bags.ids),
                                                .shape = shape_});
      return slots;
    };
    REQUIRE(located([](const auto& all) { on_host::locate_ids({}, all); }) ==
            located([](const auto& all) { host::locate_ids(all); }));
  }

  void locate_rows(std::mt19937_64& random) {
    std::vector<Key> rows(random() % 200);
    for (Key& row : rows) row = static_cast<Key>(random() % std::max<std::size_t>(1, tables_.rows));
    const std::vector<std::uint32_t> count{
        static_cast<std::uint32_t>(random() % (rows.size() + 1))};
    const auto located = [&](auto&& locate_rows) {
      std::vector<std::int32_t> slots(rows.size(), -7);
      locate_rows(LocateRowsArguments<Key>{.slots = writes(slots),
                                           .tags = reads(here_.tags),
                                           .rows = reads(rows),
                                           .count = reads(count),
                                           .shape = shape_});
      return slots;
    };
    REQUIRE(located([](const auto& all) { on_host::locate_rows({}, all); }) ==
            located([](const auto& all) { host::locate_rows(all); }));
  }

  template <typename Id, typename Offset>
  [[nodiscard]] BagLayout<Offset> layout_of(const DrawnBags<Id, Offset>& bags) const {
    return {reads(tables_.lookups), reads(bags.offsets), bags.batch};
  }

  DrawnTables tables_;
  CacheShape shape_;
  RowLayout layout_;
  bool least_used_;
  Cached here_, there_;
};

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes a row cache agrees with sequential code", "", std::uint32_t,
                   std::uint64_t) {
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

}  // namespace millrace::test::kernels
