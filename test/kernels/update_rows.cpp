#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/host/embedding.hpp"
#include "model/shapes.hpp"
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/update_rows.cu"
#undef cuda

using namespace millrace;
using namespace millrace::model;
using namespace millrace::test;
using namespace millrace::test::kernels;

namespace {

/// Of a batch: its ids sorted by row, and the runs of equal ones.
template <typename Key, typename Offset>
struct Sorted {
  Sorted(const DrawnTables& tables, const DrawnBags<std::int64_t, Offset>& bags) {
    const std::size_t size = bags.ids.size();
    std::vector<Key> rows(size), in_order(size);
    std::vector<std::uint32_t> unsorted(size);
    bag_of.resize(size);
    const auto none = static_cast<Key>(tables.rows);
    host::linearise<Key, std::int64_t, Offset>(rows, unsorted, bag_of, tables.lookups, bags.ids,
                                               bags.offsets, bags.batch, none);
    positions = unsorted;
    std::stable_sort(positions.begin(), positions.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return rows[a] < rows[b]; });
    for (std::size_t i = 0; i < size; ++i) in_order[i] = rows[positions[i]];
    unique.assign(size, static_cast<Key>(-1));
    starts.assign(size + 1, ~0U);
    host::find_runs<Key>(unique, starts, count, {}, in_order, none);
  }
  std::vector<Key> unique;
  std::vector<std::uint32_t> positions, bag_of, starts, count{0};
};

/// The parameters of rows, at home or at slots.
struct Memory {
  Memory(std::mt19937_64& random, OptimizerKind kind, std::size_t scalars, std::size_t rows)
      : weights(draw_numbers(random, scalars)),
        m(draw_numbers(random, state_of_parameter(kind) > 0 ? scalars
                               : state_of_row(kind) > 0     ? rows
                                                            : 0)),
        v(draw_numbers(random, state_of_parameter(kind) > 1 ? scalars : 0)) {
    for (float& number : m) number = std::abs(number);
    for (float& number : v) number = std::abs(number);
  }
  std::vector<float> weights, m, v;
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
                   worst_difference(found.m, expected.m), worst_difference(found.v, expected.v)});
}

/// Each run at home or at a slot of its own.
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

template <OptimizerKind kind, typename Key, typename Offset>
void compare_updates(std::mt19937_64& random) {
  const DrawnTables tables = draw_tables(random);
  const auto bags = draw_bags<std::int64_t, Offset>(random, tables, random() % 2 == 0);
  const Sorted<Key, Offset> sorted{tables, bags};
  const std::vector<float> factors = draw_numbers(random, random() % 2 == 0 ? bags.ids.size() : 0);
  PooledShape shape{bags.batch, 0, random() % 6};
  shape.stride = shape.column + tables.columns + random() % 6;
  const std::vector<float> gradient = draw_numbers(
      random,
      bags.batch == 0 ? 0 : (bags.batch - 1) * shape.stride + shape.column + tables.columns);
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
  const auto update = [&](Updated& of, auto&& update_rows) {
    update_rows(std::span{of.home.weights}, std::span{of.home.m}, std::span{of.home.v},
                std::span{of.cached.weights}, std::span{of.cached.m}, std::span{of.cached.v},
                std::span{of.states}, std::span<const std::int32_t>{slots},
                std::span<const float>{gradient}, std::span<const Lookup>{tables.lookups},
                std::span<const Offset>{bags.offsets}, std::span<const float>{factors},
                std::span<const std::uint32_t>{sorted.positions},
                std::span<const std::uint32_t>{sorted.bag_of}, std::span<const Key>{sorted.unique},
                std::span<const std::uint32_t>{sorted.starts},
                std::span<const std::uint32_t>{sorted.count}, shape, rule, slot_width);
  };
  CAPTURE(tables.lookups.size(), bags.ids.size(), sorted.count[0], slot_count);
  update(here, [](auto... all) { host::update_rows<kind, float, Key, Offset>(all...); });
  update(there, [](auto... all) { on_host::update_rows<kind, Key, Offset>({}, all...); });
  REQUIRE(worst_of(there.home, here.home) < 1e-4);
  REQUIRE(worst_of(there.cached, here.cached) < 1e-4);
  REQUIRE(there.dirty() == here.dirty());
}

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes rows are updated as one by one", "",
                   (std::pair<std::uint32_t, std::int32_t>),
                   (std::pair<std::uint32_t, std::int64_t>),
                   (std::pair<std::uint64_t, std::int32_t>),
                   (std::pair<std::uint64_t, std::int64_t>)) {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 10; ++round) {
    for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                                     OptimizerKind::adagrad, OptimizerKind::adam}) {
      CAPTURE(round, to_string(kind));
      for_kind(kind, [&]<OptimizerKind of>() {
        compare_updates<of, typename TestType::first_type, typename TestType::second_type>(random);
      });
    }
  }
}
