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

#include "model/cuda/look_up.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

constexpr float kUntouched = 7.25F;

/// Tables, a batch, and the places of its rows. Some rows may be in a cache.
template <typename Id, typename Offset>
struct LookUps {
  explicit LookUps(std::mt19937_64& random)
      : tables(draw_tables(random)),
        bags(draw_bags<Id, Offset>(random, tables, random() % 2 == 0)),
        weights(draw_numbers(random, tables.scalars)) {
    if (random() % 2 == 0) factors = draw_numbers(random, bags.ids.size());
    if (random() % 2 == 0) {
      const std::size_t count = 1 + random() % 40;
      slot_stride = tables.widest + random() % 3;
      cached = draw_numbers(random, count * slot_stride);
      slots = draw_slots(random, bags.ids.size(), count);
    }
    column = random() % 6;
    stride = column + tables.columns + random() % 6;
  }
  /// The numbers of the pooled rows, up to the last one that belongs to a pooled row.
  [[nodiscard]] std::size_t pooled() const {
    return bags.batch == 0 ? 0 : (bags.batch - 1) * stride + column + tables.columns;
  }
  [[nodiscard]] TableWeights<float> table_weights() const {
    return {reads(weights), reads(cached), reads(slots), slot_stride};
  }
  [[nodiscard]] BagLayout<Offset> layout() const {
    return {reads(tables.lookups), reads(bags.offsets), bags.batch};
  }

  DrawnTables tables;
  DrawnBags<Id, Offset> bags;
  std::vector<float> weights, factors, cached;
  std::vector<std::int32_t> slots;
  std::size_t slot_stride = 0;
  std::size_t stride = 0, column = 0;  ///< of the pooled rows
};

struct Pooled {
  std::vector<float> pooled;
  std::vector<BadId> bad;
};

template <typename Id, typename Offset>
LookUpArguments<float, Id, Offset> arguments_of(const LookUps<Id, Offset>& from, Pooled& to) {
  return {.pooled = {writes(to.pooled), from.stride, from.column},
          .bad = updates(to.bad),
          .tables = from.table_weights(),
          .bags = from.layout(),
          .ids = reads(from.bags.ids),
          .factors = reads(from.factors)};
}

template <typename Function, typename Id, typename Offset>
std::vector<float> factor_gradients_of(const LookUps<Id, Offset>& from,
                                       const std::vector<float>& gradient, Function&& kernel) {
  std::vector<float> out(from.bags.ids.size(), kUntouched);
  kernel(FactorGradientsArguments<float, Id, Offset>{
      .gradients = writes(out),
      .pooled_gradient = {reads(gradient), from.stride, from.column},
      .tables = from.table_weights(),
      .bags = from.layout(),
      .ids = reads(from.bags.ids)});
  return out;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("on 32 lanes bags are pooled as one by one", "", IdsAndOffsets) {
  using Id = typename TestType::first_type;
  using Offset = typename TestType::second_type;
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 10; ++round) {
    const LookUps<Id, Offset> look_ups{random};
    CAPTURE(round, look_ups.tables.lookups.size(), look_ups.bags.ids.size());
    Pooled here{std::vector(look_ups.pooled(), kUntouched), std::vector<BadId>(1)};
    Pooled there = here;
    host::look_up(arguments_of(look_ups, here));
    on_host::look_up({}, arguments_of(look_ups, there));
    REQUIRE(there.pooled == here.pooled);
    CHECK(there.bad[0].position == here.bad[0].position);
    CHECK(there.bad[0].lookup == here.bad[0].lookup);
    CHECK(there.bad[0].value == here.bad[0].value);

    const std::vector<float> gradient = draw_numbers(random, look_ups.pooled());
    REQUIRE(factor_gradients_of(look_ups, gradient, [](const auto& all) {
              on_host::factor_gradients({}, all);
            }) == factor_gradients_of(look_ups, gradient, [](const auto& all) {
              host::factor_gradients(all);
            }));
  }
}

TEST_CASE("on 32 lanes the first invalid id is kept over batches") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  Pooled here{{}, std::vector<BadId>(1)}, there{{}, std::vector<BadId>(1)};
  for (int round = 0; round < 20; ++round) {
    const LookUps<std::int64_t, std::int32_t> look_ups{random};
    here.pooled = there.pooled = std::vector(look_ups.pooled(), kUntouched);
    host::look_up(arguments_of(look_ups, here));
    on_host::look_up({}, arguments_of(look_ups, there));
    REQUIRE(there.bad[0].lookup == here.bad[0].lookup);
    REQUIRE(there.bad[0].value == here.bad[0].value);
  }
}

TEMPLATE_TEST_CASE("on 32 lanes rows from ids agree with sequential code", "", std::uint32_t,
                   std::uint64_t) {
  using Key = TestType;
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  const auto compare = [&]<typename Id, typename Offset>(Id, Offset) {
    const DrawnTables tables = draw_tables(random);
    const auto bags = draw_bags<Id, Offset>(random, tables, true);
    const auto linearised = [&](auto&& linearise) {
      std::vector<Key> rows(bags.ids.size());
      std::vector<std::uint32_t> positions(rows.size()), bag_of(rows.size());
      linearise(LineariseArguments<Key, Id, Offset>{
          .rows = writes(rows),
          .positions = writes(positions),
          .bag_of = writes(bag_of),
          .bags = {reads(tables.lookups), reads(bags.offsets), bags.batch},
          .ids = reads(bags.ids),
          .none = static_cast<Key>(tables.rows)});
      return std::tuple{rows, positions, bag_of};
    };
    REQUIRE(linearised([](const auto& all) { on_host::linearise({}, all); }) ==
            linearised([](const auto& all) { host::linearise(all); }));
  };
  for (int round = 0; round < 15; ++round) {
    compare(std::int32_t{}, std::int32_t{});
    compare(std::int32_t{}, std::int64_t{});
    compare(std::int64_t{}, std::int32_t{});
    compare(std::int64_t{}, std::int64_t{});
  }
}

}  // namespace millrace::test::kernels
