#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "sharding/cuda/columns.cu"
#include "sharding/cuda/split.cu"
#include "sharding/host/kernels.hpp"
#undef cuda

namespace millrace::test::kernels {

using namespace sharding;
using model::reads;
using model::writes;

namespace {

/// A batch with some split features, and the number of ranks among which they are split.
template <typename Id, typename Offset>
struct Splits {
  explicit Splits(std::mt19937_64& random)
      : tables(draw_tables(random)),
        bags(draw_bags<Id, Offset>(random, tables, true)),
        ranks(1 + random() % 9) {
    for (std::size_t key = 0; key < tables.lookups.size(); ++key) {
      if (random() % 3 == 0) continue;
      const auto rows = static_cast<std::uint64_t>(tables.lookups[key].rows);
      features.push_back(
          {static_cast<std::int64_t>(key),
           static_cast<std::int64_t>(std::max<std::uint64_t>(1, rows / (1 + random() % 10)))});
    }
    std::shuffle(features.begin(), features.end(), random);
    if (random() % 2 == 0) weights = draw_numbers(random, bags.ids.size());
  }

  [[nodiscard]] BagsToSplit<Offset> view() const {
    return {.features = reads(features),
            .offsets = reads(bags.offsets),
            .batch = bags.batch,
            .ranks = ranks};
  }

  DrawnTables tables;
  DrawnBags<Id, Offset> bags;
  std::size_t ranks;
  std::vector<SplitFeature> features;
  std::vector<float> weights;
};

/// The results of all steps of a split.
template <typename Id, typename Offset>
struct Parts {
  std::vector<Offset> lengths, offsets;
  std::vector<Id> ids;
  std::vector<float> weights, positions;
  std::vector<std::int64_t> counts;
  bool operator==(const Parts&) const = default;
};

template <typename Id, typename Offset, typename Kernels>
Parts<Id, Offset> split(const Splits<Id, Offset>& whole, const Kernels& kernels) {
  const auto ids = reads(whole.bags.ids);
  const std::size_t rows = whole.ranks * whole.features.size();
  Parts<Id, Offset> parts;
  parts.lengths.assign(rows * whole.bags.batch, 77);
  kernels.lengths(SplitLengthsArguments<Id, Offset>{
      .lengths = writes(parts.lengths), .ids = ids, .bags = whole.view()});
  parts.offsets.assign(parts.lengths.size() + 1, 0);
  std::inclusive_scan(parts.lengths.begin(), parts.lengths.end(), parts.offsets.begin() + 1);
  parts.ids.resize(static_cast<std::size_t>(parts.offsets.back()));
  parts.weights.resize(whole.weights.empty() ? 0 : parts.ids.size());
  kernels.values(SplitValuesArguments<Id, Offset>{.split_ids = writes(parts.ids),
                                                  .split_weights = writes(parts.weights),
                                                  .split_offsets = reads(parts.offsets),
                                                  .ids = ids,
                                                  .weights = reads(whole.weights),
                                                  .bags = whole.view()});
  parts.counts.resize(rows);
  kernels.count(std::span{parts.counts}, std::span<const Offset>{parts.offsets}, whole.bags.batch);
  parts.positions.resize(ids.size());
  kernels.positions(std::span{parts.positions}, std::span<const Offset>{whole.bags.offsets});
  return parts;
}

template <typename Id, typename Offset>
struct HostSplit {
  static void lengths(const auto& all) { sharding::host::split_lengths(all); }
  static void values(const auto& all) { sharding::host::split_values(all); }
  static void count(auto... all) { sharding::host::count_split<Offset>(all...); }
  static void positions(auto... all) { sharding::host::bag_positions<Offset>(all...); }
};

template <typename Id, typename Offset>
struct LanesSplit {
  static void lengths(const auto& all) { sharding::on_host::split_lengths({}, all); }
  static void values(const auto& all) { sharding::on_host::split_values({}, all); }
  static void count(auto... all) { sharding::on_host::count_split<Offset>({}, all...); }
  static void positions(auto... all) { sharding::on_host::bag_positions<Offset>({}, all...); }
};

/// Pooled columns. Each comes from one or several columns of a block.
struct Columns {
  explicit Columns(std::mt19937_64& random) {
    std::vector<ColumnSource> all;
    const std::size_t blocks = 1 + random() % 6;
    for (std::size_t b = 0; b < blocks; ++b) {
      const auto columns = static_cast<std::int32_t>(1 + random() % 40);
      for (std::int32_t c = 0; c < columns; ++c) all.push_back({block_columns, columns, c});
      block_columns += columns;
    }
    std::shuffle(all.begin(), all.end(), random);
    first_source.push_back(0);
    for (std::size_t taken = 0; taken < all.size(); ++shape.columns) {
      taken = std::min(all.size(), taken + 1 + random() % 3);
      first_source.push_back(static_cast<std::int32_t>(taken));
    }
    sources = all;
    shape.batch = random() % 50;
    shape.column = random() % 5;
    shape.stride = shape.column + shape.columns + random() % 5;
    if (random() % 2 == 0) draw_means(random);
  }
  [[nodiscard]] std::size_t block_size() const {
    return shape.batch * static_cast<std::size_t>(block_columns);
  }
  [[nodiscard]] std::size_t pooled_size() const {
    return shape.batch == 0 ? 0 : (shape.batch - 1) * shape.stride + shape.column + shape.columns;
  }

  [[nodiscard]] ColumnMap view() const {
    return {.first_source = reads(first_source),
            .sources = reads(sources),
            .mean_of = reads(mean_of),
            .means = reads(means)};
  }

  std::int32_t block_columns = 0;
  std::vector<std::int32_t> first_source, mean_of;
  std::vector<ColumnSource> sources;
  std::vector<float> means;
  JoinedShape shape;

 private:
  void draw_means(std::mt19937_64& random) {
    const std::size_t features = 1 + random() % 4;
    means = draw_numbers(random, features * shape.batch);
    mean_of = draw_slots(random, shape.columns, features);
  }
};

/// What a kernel writes, with arguments of this type.
template <typename Arguments>
std::vector<float> filled(std::size_t size, const Columns& columns, const std::vector<float>& from,
                          auto&& fill) {
  std::vector<float> to(size, 7.25F);
  fill(Arguments{writes(to), reads(from), columns.view(), columns.shape});
  return to;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("on 32 lanes ids are split among ranks as one by one", "", IdsAndOffsets) {
  using Id = typename TestType::first_type;
  using Offset = typename TestType::second_type;
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 20; ++round) {
    const Splits<Id, Offset> whole{random};
    CAPTURE(round, whole.features.size(), whole.ranks, whole.bags.ids.size());
    REQUIRE(split(whole, LanesSplit<Id, Offset>{}) == split(whole, HostSplit<Id, Offset>{}));
  }
}

TEMPLATE_TEST_CASE("on 32 lanes the means of bags agree with sequential code", "", std::int32_t,
                   std::int64_t) {
  using Offset = TestType;
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 20; ++round) {
    const DrawnTables tables = draw_tables(random);
    const auto bags = draw_bags<std::int32_t, Offset>(random, tables, false);
    const std::size_t first = random() % tables.lookups.size() * bags.batch;
    const auto means = [&](auto&& bag_means) {
      std::vector<float> means(bags.batch);
      bag_means(std::span{means}, std::span<const Offset>{bags.offsets}, first);
      return means;
    };
    REQUIRE(means([](auto... all) { sharding::on_host::bag_means<Offset>({}, all...); }) ==
            means([](auto... all) { sharding::host::bag_means<Offset>(all...); }));
  }
}

TEST_CASE("on 32 lanes joined and parted columns agree with sequential code") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 40; ++round) {
    const Columns columns{random};
    CAPTURE(round, columns.shape.batch, columns.shape.columns);
    const std::vector<float> blocks = draw_numbers(random, columns.block_size());
    using Join = JoinColumnsArguments;
    using Part = PartColumnsArguments;
    REQUIRE(filled<Join>(columns.pooled_size(), columns, blocks, [](const auto& all) {
              sharding::on_host::join_columns({}, all);
            }) == filled<Join>(columns.pooled_size(), columns, blocks, [](const auto& all) {
              sharding::host::join_columns(all);
            }));
    const std::vector<float> pooled = draw_numbers(random, columns.pooled_size());
    REQUIRE(filled<Part>(columns.block_size(), columns, pooled, [](const auto& all) {
              sharding::on_host::part_columns({}, all);
            }) == filled<Part>(columns.block_size(), columns, pooled, [](const auto& all) {
              sharding::host::part_columns(all);
            }));
  }
}

}  // namespace millrace::test::kernels
