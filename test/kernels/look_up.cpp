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

#include "model/cuda/look_up.cu"
#undef cuda

using namespace millrace;
using namespace millrace::model;
using namespace millrace::test;
using namespace millrace::test::kernels;

namespace {

constexpr float kUntouched = 7.25F;

/// Tables, a batch, and where its rows are: some in a cache, if there is one.
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
    shape = {bags.batch, 0, random() % 6};
    shape.stride = shape.column + tables.columns + random() % 6;
  }
  /// Of pooled rows, up to the last number that is one of theirs.
  [[nodiscard]] std::size_t pooled() const {
    return shape.batch == 0 ? 0 : (shape.batch - 1) * shape.stride + shape.column + tables.columns;
  }

  DrawnTables tables;
  DrawnBags<Id, Offset> bags;
  std::vector<float> weights, factors, cached;
  std::vector<std::int32_t> slots;
  std::size_t slot_stride = 0;
  PooledShape shape;
};

struct Pooled {
  std::vector<float> pooled;
  std::vector<BadId> bad;
};

template <typename Function, typename Id, typename Offset>
void look_up_into(Pooled& to, const LookUps<Id, Offset>& from, Function&& look_up) {
  look_up(std::span{to.pooled}, std::span{to.bad}, std::span<const float>{from.weights},
          std::span<const float>{from.cached}, std::span<const std::int32_t>{from.slots},
          std::span<const Lookup>{from.tables.lookups}, std::span<const Id>{from.bags.ids},
          std::span<const Offset>{from.bags.offsets}, std::span<const float>{from.factors},
          from.shape, from.slot_stride);
}

template <typename Function, typename Id, typename Offset>
std::vector<float> factor_gradients_of(const LookUps<Id, Offset>& from,
                                       const std::vector<float>& gradient, Function&& gradients) {
  std::vector<float> out(from.bags.ids.size(), kUntouched);
  gradients(std::span{out}, std::span<const float>{gradient}, std::span<const float>{from.weights},
            std::span<const float>{from.cached}, std::span<const std::int32_t>{from.slots},
            std::span<const Lookup>{from.tables.lookups}, std::span<const Id>{from.bags.ids},
            std::span<const Offset>{from.bags.offsets}, from.shape, from.slot_stride);
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("on 32 lanes bags are pooled as one by one", "",
                   (std::pair<std::int32_t, std::int32_t>), (std::pair<std::int32_t, std::int64_t>),
                   (std::pair<std::int64_t, std::int32_t>),
                   (std::pair<std::int64_t, std::int64_t>)) {
  using Id = typename TestType::first_type;
  using Offset = typename TestType::second_type;
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 10; ++round) {
    const LookUps<Id, Offset> look_ups{random};
    CAPTURE(round, look_ups.tables.lookups.size(), look_ups.bags.ids.size());
    Pooled here{std::vector(look_ups.pooled(), kUntouched), std::vector<BadId>(1)};
    Pooled there = here;
    look_up_into(here, look_ups, [](auto... all) { host::look_up<float, Id, Offset>(all...); });
    look_up_into(there, look_ups, [](auto... all) { on_host::look_up<Id, Offset>({}, all...); });
    REQUIRE(there.pooled == here.pooled);
    CHECK(there.bad[0].position == here.bad[0].position);
    CHECK(there.bad[0].lookup == here.bad[0].lookup);
    CHECK(there.bad[0].value == here.bad[0].value);

    const std::vector<float> gradient = draw_numbers(random, look_ups.pooled());
    REQUIRE(factor_gradients_of(look_ups, gradient, [](auto... all) {
              on_host::factor_gradients<Id, Offset>({}, all...);
            }) == factor_gradients_of(look_ups, gradient, [](auto... all) {
              host::factor_gradients<float, Id, Offset>(all...);
            }));
  }
}

TEST_CASE("on 32 lanes the first id of no row is kept over batches") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  Pooled here{{}, std::vector<BadId>(1)}, there{{}, std::vector<BadId>(1)};
  for (int round = 0; round < 20; ++round) {
    const LookUps<std::int64_t, std::int32_t> look_ups{random};
    here.pooled = there.pooled = std::vector(look_ups.pooled(), kUntouched);
    look_up_into(here, look_ups,
                 [](auto... all) { host::look_up<float, std::int64_t, std::int32_t>(all...); });
    look_up_into(there, look_ups,
                 [](auto... all) { on_host::look_up<std::int64_t, std::int32_t>({}, all...); });
    REQUIRE(there.bad[0].lookup == here.bad[0].lookup);
    REQUIRE(there.bad[0].value == here.bad[0].value);
  }
}

TEMPLATE_TEST_CASE("on 32 lanes ids become rows of all tables as one by one", "", std::uint32_t,
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
      linearise(std::span{rows}, std::span{positions}, std::span{bag_of},
                std::span<const Lookup>{tables.lookups}, std::span<const Id>{bags.ids},
                std::span<const Offset>{bags.offsets}, bags.batch, static_cast<Key>(tables.rows));
      return std::tuple{rows, positions, bag_of};
    };
    REQUIRE(linearised([](auto... all) { on_host::linearise<Key, Id, Offset>({}, all...); }) ==
            linearised([](auto... all) { host::linearise<Key, Id, Offset>(all...); }));
  };
  for (int round = 0; round < 15; ++round) {
    compare(std::int32_t{}, std::int32_t{});
    compare(std::int32_t{}, std::int64_t{});
    compare(std::int64_t{}, std::int32_t{});
    compare(std::int64_t{}, std::int64_t{});
  }
}
