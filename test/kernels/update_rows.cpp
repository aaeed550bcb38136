#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/host/embedding.hpp"
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/update_rows.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

/// The ids of a batch, sorted by row, and the runs of equal rows.
template <typename Key, typename Offset>
struct Sorted {
  Sorted(const DrawnTables& tables, const DrawnBags<std::int64_t, Offset>& bags) {
    const std::size_t size = bags.ids.size();
    std::vector<Key> rows(size), in_order(size);
    std::vector<std::uint32_t> unsorted(size);
    bag_of.resize(size);
    const auto none = static_cast<Key>(tables.rows);
    host::linearise(LineariseArguments<Key, std::int64_t, Offset>{
        .rows = writes(rows),
        .positions = writes(unsorted),
        .bag_of = writes(bag_of),
        .bags = {reads(tables.lookups), reads(bags.offsets), bags.batch},
        .ids = reads(bags.ids),
        .none = none});
    positions = unsorted;
    std::stable_sort(positions.begin(), positions.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return rows[a] < rows[b]; });
    for (std::size_t i = 0; i < size; ++i) in_order[i] = rows[positions[i]];
    unique.assign(size, static_cast<Key>(-1));
    starts.assign(size + 1, ~0U);
    host::find_runs(FindRunsArguments<Key>{.unique = writes(unique),
                                           .starts = writes(starts),
                                           .count = writes(count),
                                           .sorted = reads(in_order),
                                           .none = none});
  }
  [[nodiscard]] SortedIds<Key> view() const {
    return {.rows = reads(unique),
            .starts = reads(starts),
            .count = reads(count),
            .positions = reads(positions),
            .bag_of = reads(bag_of)};
  }
  std::vector<Key> unique;
  std::vector<std::uint32_t> positions, bag_of, starts, count{0};
};

/// The parameters of rows, in tables or in cache slots.
struct Memory {
  Memory(std::mt19937_64& random, OptimizerKind kind, std::size_t scalars, std::size_t rows)
      : weights(draw_numbers(random, scalars)),
        first(draw_numbers(random, state_of_parameter(kind) > 0 ? scalars
                                   : state_of_row(kind) > 0     ? rows
                                                                : 0)),
        second(draw_numbers(random, state_of_parameter(kind) > 1 ? scalars : 0)) {
    for (float& number : first) number = std::abs(number);
    for (float& number : second) number = std::abs(number);
  }
  [[nodiscard]] RowStorage<float> storage() {
    return {.weights = updates(weights),
            .first_moment = updates(first),
            .second_moment = updates(second)};
  }
  std::vector<float> weights, first, second;
};

struct Updated {
  Memory home, cached;
  std::vector<SlotState> states;

  [[nodiscard]] std::vector<std::uint32_t> dirty() const {
    std::vector<std::uint32_t> dirty;
    for (const SlotState& state : states) dirty.push_back(state.dirty);
    return dirty;
  }
};

double worst_of(const Memory& found, const Memory& expected) {
  return std::max({worst_difference(found.weights, expected.weights),
                   worst_difference(found.first, expected.first),
                   worst_difference(found.second, expected.second)});
}

/// A place for each run: its table, or a slot of its own.
std::vector<std::int32_t> draw_places(std::mt19937_64& random, std::size_t runs,
                                      std::size_t slots) {
  std::vector<std::int32_t> places(std::max(runs, slots));
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), random);
  places.resize(runs);
  places.shrink_to_fit();
  for (std::int32_t& place : places) {
    if (place >= static_cast<std::int32_t>(slots)) place = kNoSlot;
  }
  return places;
}

template <typename Key, typename Offset>
void compare_updates(std::mt19937_64& random, OptimizerKind kind) {
  const DrawnTables tables = draw_tables(random);
  const auto bags = draw_bags<std::int64_t, Offset>(random, tables, random() % 2 == 0);
  const Sorted<Key, Offset> sorted{tables, bags};
  const std::vector<float> factors = draw_numbers(random, random() % 2 == 0 ? bags.ids.size() : 0);
  const std::size_t column = random() % 6;
  const std::size_t stride = column + tables.columns + random() % 6;
  const std::vector<float> gradient = draw_numbers(
      random, bags.batch == 0 ? 0 : (bags.batch - 1) * stride + column + tables.columns);
  const std::size_t slot_count = random() % 2 == 0 ? 0 : 1 + random() % 200;
  const std::size_t slot_width = tables.widest + random() % 3;
  const std::vector<std::int32_t> slots =
      draw_places(random, slot_count == 0 ? 0 : sorted.count[0], slot_count);
  const Rule<float> rule =
      rule_of<float>({.kind = kind, .learning_rate = 0.05F, .epsilon = 1e-4F}, 1 + random() % 5);
  Updated here{{random, kind, tables.scalars, tables.rows},
               {random, kind, slot_count * slot_width, slot_count},
               std::vector<SlotState>(slot_count)};
  Updated there = here;
  const auto arguments = [&](Updated& of) {
    return UpdateRowsArguments<float, Key, Offset>{
        .tables = {.home = of.home.storage(),
                   .cached = of.cached.storage(),
                   .states = updates(of.states),
                   .slots = reads(slots),
                   .layout = {slot_width, state_of_row(kind) != 0}},
        .gradient = {reads(gradient), stride, column},
        .bags = {reads(tables.lookups), reads(bags.offsets), bags.batch},
        .factors = reads(factors),
        .sorted = sorted.view(),
        .rule = rule};
  };
  CAPTURE(tables.lookups.size(), bags.ids.size(), sorted.count[0], slot_count);
  host::update_rows(arguments(here));
  on_host::update_rows({}, arguments(there));
  REQUIRE(worst_of(there.home, here.home) < 1e-4);
  REQUIRE(worst_of(there.cached, here.cached) < 1e-4);
  REQUIRE(there.dirty() == here.dirty());
}

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes updated rows agree with sequential code", "",
                   (std::pair<std::uint32_t, std::int32_t>),
                   (std::pair<std::uint32_t, std::int64_t>),
                   (std::pair<std::uint64_t, std::int32_t>),
                   (std::pair<std::uint64_t, std::int64_t>)) {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 10; ++round) {
    for (const OptimizerTraits& optimizer : kOptimizers) {
      if (optimizer.kind == OptimizerKind::none) continue;
      CAPTURE(round, optimizer.name);
      compare_updates<typename TestType::first_type, typename TestType::second_type>(
          random, optimizer.kind);
    }
  }
}

}  // namespace millrace::test::kernels
