#include "millrace/pipeline/data/synthetic_source.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>

#include "data/zipf.hpp"
#include "test/pipeline/data/source_support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

SyntheticSettings small_settings() {
  SyntheticSettings settings{.batch_size = 8, .examples = 30, .dense_features = 2};
  settings.sparse = {{{"a", "shared", 1000}, 3, 1, 1, 1.1}, {{"b", "shared", 1000}, 0.5, 0, 0, 0}};
  settings.weighted = {{{"w", "w", 50}, 2, 2, 0, 1}};
  settings.pooling_variation = 0.1;
  settings.seed = 7;
  return settings;
}

struct SyntheticBench : JaggedBench {
  [[nodiscard]] PinnedStaging staging() { return {host_memory, copy}; }
};

}  // namespace

TEST_CASE("the same settings and seed give the same bits on every machine") {
  SyntheticBench bench;
  SyntheticSource source{small_settings(), bench.staging()};
  CHECK(digest_of_rest(source) == 0xbeea31245840c610U);
}

TEST_CASE("another seed gives other batches, another epoch gives the same batches") {
  SyntheticBench bench;
  SyntheticSettings settings = small_settings();
  SyntheticSource source{settings, bench.staging()};
  settings.seed = 8;
  SyntheticSource other{settings, bench.staging()};
  const auto first = rest_of(source);
  CHECK(first != rest_of(other));
  source.next_epoch();
  CHECK(first == rest_of(source));
  CHECK(source.position() == BatchPosition{1, 4});
}

TEST_CASE("a synthetic source gives the same batches after a seek to any position") {
  SyntheticBench bench;
  SyntheticSource source{small_settings(), bench.staging()};
  const auto all = rest_of(source);
  REQUIRE(all.size() == 4);
  for (std::uint64_t batch = 0; batch <= 5; ++batch) {
    source.seek({3, batch});
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(batch, 4));
    CHECK(rest_of(source) == std::vector<BatchBytes>{begin, all.end()});
  }
}

TEST_CASE("the last batch of an epoch has the remaining examples") {
  SyntheticBench bench;
  SyntheticSource source{small_settings(), bench.staging()};
  source.seek({0, 3});
  const auto last = source.next();
  REQUIRE(last);
  CHECK(last->batch_size() == 6);
  CHECK(last->contents().sparse.batch_size() == 6);
  CHECK_FALSE(source.next());
}

TEST_CASE("every id is a row of its table, and the last offset is the number of ids") {
  SyntheticBench bench;
  CHECK(rc::check([&] {
    SyntheticSettings settings{.batch_size = *rc::gen::inRange<std::size_t>(1, 20),
                               .examples = *rc::gen::inRange<std::uint64_t>(0, 60)};
    settings.seed = *rc::gen::arbitrary<std::uint64_t>();
    settings.value_type = *rc::gen::element(IndexType::int32, IndexType::int64);
    settings.length_type = *rc::gen::element(IndexType::int32, IndexType::int64);
    for (int key = *rc::gen::inRange(0, 4); key > 0; --key) {
      const std::string name = "f" + std::to_string(key);
      const SyntheticFeature feature{{name, name, *rc::gen::inRange<std::size_t>(1, 300)},
                                     *rc::gen::inRange(0, 40) / 10.0,
                                     *rc::gen::inRange(0, 40) / 10.0,
                                     *rc::gen::inRange(0U, 3U),
                                     *rc::gen::inRange(0, 30) / 10.0};
      (*rc::gen::arbitrary<bool>() ? settings.weighted : settings.sparse).push_back(feature);
    }
    SyntheticSource source{settings, bench.staging()};
    std::uint64_t examples = 0;
    while (const auto batch = source.next()) {
      check_ids(batch->contents(), source.schema());
      examples += batch->batch_size();
      for (const auto* jagged : {&batch->contents().sparse, &batch->contents().weighted}) {
        if (jagged->empty()) continue;
        const std::int64_t last = settings.length_type == IndexType::int32
                                      ? list<std::int32_t>(jagged->offsets()).back()
                                      : list<std::int64_t>(jagged->offsets()).back();
        RC_ASSERT(static_cast<std::size_t>(last) == jagged->value_count());
      }
    }
    RC_ASSERT(examples == settings.examples);
  }));
}

TEST_CASE("batches without contents have the same layouts and sizes as batches with contents") {
  SyntheticBench bench;
  SyntheticSettings settings = small_settings();
  SyntheticSource full{settings, bench.staging()};
  settings.contents = false;
  SyntheticSource sizes{settings, bench.staging()};
  while (const auto batch = full.next()) {
    const auto other = sizes.next();
    REQUIRE(other);
    CHECK(batch->contents().sparse.layout() == other->contents().sparse.layout());
    CHECK(batch->contents().weighted.layout() == other->contents().weighted.layout());
    CHECK(batch->bytes() == other->bytes());
  }
  CHECK_FALSE(sizes.next());
}

TEST_CASE("the lengths of bags have the requested mean and deviation") {
  SyntheticBench bench;
  SyntheticSettings settings{.batch_size = 10'000, .examples = 10'000};
  settings.sparse = {{{"a", "a", 10}, 30, 3, 1, 0}};
  SyntheticSource source{settings, bench.staging()};
  const auto lengths = list<std::int32_t>(source.next()->contents().sparse.lengths());
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  double squares = 0;
  for (const int length : lengths) squares += (length - sum / 1e4) * (length - sum / 1e4);
  CHECK(std::abs(sum / 1e4 - 30) < 0.15);                // 5 standard errors of the mean
  CHECK(std::abs(std::sqrt(squares / 1e4) - 3) < 0.12);  // over 5 standard errors of the deviation
}

TEST_CASE("examples with the same ids mostly have the same label") {
  SyntheticBench bench;
  SyntheticSettings settings{.batch_size = 20'000, .examples = 20'000};
  settings.sparse = {{{"a", "a", 100}, 1, 0, 1, 0}};
  SyntheticSource source{settings, bench.staging()};
  const auto batch = source.next();
  const auto ids = list<std::int64_t>(batch->contents().sparse.values());
  const auto labels = list<float>(batch->contents().labels);
  std::vector<double> ones(100), count(100);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ones[static_cast<std::size_t>(ids[i])] += labels[i];
    ++count[static_cast<std::size_t>(ids[i])];
  }
  double right = 0;
  for (std::size_t id = 0; id < 100; ++id) right += std::max(ones[id], count[id] - ones[id]);
  CHECK(right / 20'000 > 0.8);
  const double all = std::accumulate(labels.begin(), labels.end(), 0.0) / 20'000;
  CHECK(all > 0.3);
  CHECK(all < 0.7);
}

TEST_CASE("Zipf ranks have the frequencies of Zipf's law") {
  const double exponent = GENERATE(0.0, 0.5, 0.99, 1.0, 1.2, 3.0);
  constexpr std::uint64_t kCount = 50;
  constexpr int kDraws = 200'000;
  const Zipf zipf{kCount, exponent};
  Draws draws{11};
  std::vector<double> seen(kCount), expected(kCount);
  for (int i = 0; i < kDraws; ++i) ++seen[zipf(draws)];
  for (std::size_t k = 0; k < kCount; ++k) {
    expected[k] = std::pow(static_cast<double>(k) + 1, -exponent);
  }
  const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
  double chi_squared = 0;
  for (std::size_t k = 0; k < kCount; ++k) {
    const double mean = kDraws * expected[k] / total;
    chi_squared += (seen[k] - mean) * (seen[k] - mean) / mean;
  }
  CHECK(chi_squared < 49 + 5 * std::sqrt(2 * 49.0));
}

TEST_CASE("Zipf ranks stay in range for 1 row and for 5 billion rows") {
  const double exponent = GENERATE(0.0, 0.7, 1.0, 1.00001, 2.0, 64.0);
  Draws draws{3};
  const Zipf one{1, exponent}, many{std::uint64_t{5'000'000'000}, exponent};
  for (int i = 0; i < 2000; ++i) {
    REQUIRE(one(draws) == 0);
    REQUIRE(many(draws) < 5'000'000'000U);
  }
}

TEST_CASE("exact_power agrees with std::pow") {
  for (const double x : {1e-9, 0.3, 1.0, 2.5, 1e8}) {
    for (const double exponent : {-7.25, -0.1, 0.0, 0.3, 1.0, 2.5, 20.0}) {
      CHECK(exact_power(x, exponent) == Approx(std::pow(x, exponent)).epsilon(2e-6));
    }
  }
}

TEST_CASE("invalid settings of a synthetic source are refused") {
  SyntheticBench bench;
  const auto make = [&](const SyntheticSettings& settings) {
    return SyntheticSource{settings, bench.staging()};
  };
  SyntheticSettings settings = small_settings();
  settings.batch_size = 0;
  CHECK_THROWS_AS(make(settings), std::invalid_argument);
  settings = small_settings();
  settings.sparse[1].feature.rows = 999;
  CHECK_THROWS_WITH(make(settings), ContainsSubstring("'shared'") && ContainsSubstring("1000") &&
                                        ContainsSubstring("999"));
  settings = small_settings();
  settings.weighted[0].feature.name = "a";
  CHECK_THROWS_WITH(make(settings), ContainsSubstring("'a' occurs twice"));
  settings = small_settings();
  settings.sparse[0].feature.rows = settings.sparse[1].feature.rows = std::size_t{1} << 40;
  settings.value_type = IndexType::int32;
  CHECK_THROWS_WITH(make(settings), ContainsSubstring("int32"));
  settings = small_settings();
  settings.sparse[0].pooling = -1;
  CHECK_THROWS_WITH(make(settings), ContainsSubstring("'a'") && ContainsSubstring("pooling"));
  settings = small_settings();
  settings.sparse[0].skew = std::nan("");
  CHECK_THROWS_AS(make(settings), std::invalid_argument);
}
