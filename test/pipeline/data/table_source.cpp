#include "millrace/pipeline/data/table_source.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "test/pipeline/data/source_support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Example i has the label i, dense features 2i and 2i + 1, id i in feature a, and in feature b the
/// id 5 if i is even, else none.
std::shared_ptr<const ExampleTable> numbered(std::size_t examples) {
  ExampleTable table;
  table.schema.dense = {"x", "y"};
  table.schema.sparse = {{"a", "a", 1000}, {"b", "b", 7}};
  for (std::size_t i = 0; i < examples; ++i) {
    table.labels.push_back(static_cast<float>(i));
    table.ids.insert(table.ids.end(), {static_cast<std::int64_t>(i), i % 2 == 0 ? 5 : -1});
    table.dense.insert(table.dense.end(),
                       {static_cast<float>(2 * i), static_cast<float>(2 * i + 1)});
  }
  return std::make_shared<const ExampleTable>(std::move(table));
}

struct TableBench : JaggedBench {
  [[nodiscard]] TableSource open(std::size_t examples, const TableSettings& settings) {
    return {numbered(examples), settings, {host_memory, copy}};
  }
};

std::vector<float> labels_of_epoch(EpochSource& source) {
  std::vector<float> labels;
  while (const auto batch = source.next()) {
    const auto more = list<float>(batch->contents().labels);
    labels.insert(labels.end(), more.begin(), more.end());
  }
  return labels;
}

std::vector<float> labels_to(std::size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  return numbers;
}

}  // namespace

TEST_CASE("a table's examples come in order, with their features") {
  TableBench bench;
  TableSource source = bench.open(5, {.batch_size = 3});
  const auto first = source.next();
  REQUIRE(first);
  const InputTensors& batch = first->contents();
  CHECK(list<float>(batch.labels) == std::vector<float>{0, 1, 2});
  CHECK(list<float>(batch.dense) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(list<std::int32_t>(batch.sparse.lengths()) == std::vector<std::int32_t>{1, 1, 1, 1, 0, 1});
  CHECK(list<std::int32_t>(batch.sparse.offsets()) ==
        std::vector<std::int32_t>{0, 1, 2, 3, 4, 4, 5});
  CHECK(list<std::int64_t>(batch.sparse.values()) == std::vector<std::int64_t>{0, 1, 2, 5, 5});
  CHECK(batch.sparse.value_count(1) == 2);
  CHECK(batch.weighted.empty());
  CHECK(source.next()->batch_size() == 2);
  CHECK_FALSE(source.next());
}

TEST_CASE("with drop_last a short last batch of a table is left out") {
  TableBench bench;
  TableSource source = bench.open(8, {.batch_size = 3, .drop_last = true});
  CHECK(labels_of_epoch(source) == labels_to(6));
}

TEST_CASE("a table without examples has no batch") {
  TableBench bench;
  TableSource source = bench.open(0, {});
  CHECK_FALSE(source.next());
}

TEST_CASE("each epoch has every example once, shuffled in a new order") {
  TableBench bench;
  TableSource source = bench.open(100, {.batch_size = 7, .shuffle = 5});
  auto first = labels_of_epoch(source);
  source.next_epoch();
  auto second = labels_of_epoch(source);
  CHECK(first != second);
  source.seek({0, 0});
  CHECK(labels_of_epoch(source) == first);
  for (auto* epoch : {&first, &second}) {
    CHECK(*epoch != labels_to(100));
    std::ranges::sort(*epoch);
    CHECK(*epoch == labels_to(100));
  }
}

TEST_CASE("a shuffled table gives the same batches after a seek to any position") {
  TableBench bench;
  TableSource source = bench.open(50, {.batch_size = 8, .shuffle = 1});
  source.seek({2, 0});
  const auto all = rest_of(source);
  for (std::uint64_t batch = 0; batch < 7; ++batch) {
    TableSource resumed = bench.open(50, {.batch_size = 8, .shuffle = 1});
    resumed.seek({2, batch});
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(batch);
    CHECK(rest_of(resumed) == std::vector<BatchBytes>{begin, all.end()});
  }
}

TEST_CASE("a table whose columns disagree is refused with the numbers") {
  TableBench bench;
  ExampleTable table = *numbered(4);
  table.ids.pop_back();
  CHECK_THROWS_WITH(
      (TableSource{
          std::make_shared<const ExampleTable>(table), {}, {bench.host_memory, bench.copy}}),
      ContainsSubstring("4 examples") && ContainsSubstring("7 ids"));
  CHECK_THROWS_AS(bench.open(4, {.batch_size = 0}), std::invalid_argument);
}
