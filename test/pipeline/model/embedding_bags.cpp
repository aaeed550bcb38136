#include <cmath>
#include <set>
#include <stdexcept>

#include "test/pipeline/model/bags_bench.hpp"
#include "test/pipeline/model/embedding_reference.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// For each pooling: one table that two features share, and one whose width is no multiple of 4.
std::vector<TableConfig> bag_tables() {
  return {{"shared", 7, 4, Pooling::sum, {"a", "b"}},
          {"wide", 30, 13, Pooling::mean, {"c"}},
          {"averaged", 5, 8, Pooling::mean, {"d", "e"}},
          {"one", 1, 1, Pooling::sum, {"f"}}};
}

const std::vector<std::size_t> kBagRows{7, 7, 30, 5, 5, 1};

/// Embedding bags and their reference implementation, with drawn inputs for both.
struct Scene : BagsBench {
  explicit Scene(OptimizerKind kind, std::vector<TableConfig> configs = bag_tables())
      : BagsBench(configs, {.optimizer = row_optimizer(kind), .seed = seed()}),
        configs(configs),
        reference(configs, row_optimizer(kind)),
        random(seed()) {
    for (std::size_t t = 0; t < configs.size(); ++t) reference.set_weights(t, weights(t));
  }

  std::vector<float> weights(std::size_t table) {
    const TableView& view = bags.tables()[table];
    return bench.memory.download(static_cast<const float*>(view.weights), view.rows * view.width);
  }
  HostBags draw(std::size_t batch, bool weighted) {
    return draw_bags(random, bags.features(), kBagRows, batch, 6, weighted);
  }
  std::vector<float> draw_gradient(std::size_t batch) {
    std::vector<float> gradient(batch * bags.columns());
    for (float& g : gradient) g = static_cast<float>(random() % 2001) / 1000.0F - 1;
    return gradient;
  }

  std::vector<TableConfig> configs;
  EmbeddingReference reference;
  std::mt19937_64 random;
};

void check_close(const std::vector<float>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - expected[i]) /
                                (0.1 + std::abs(expected[i])));
  }
  CHECK(worst < 1e-5);
}

void check_tables(Scene& scene) {
  for (std::size_t t = 0; t < scene.configs.size(); ++t) {
    check_close(scene.weights(t), scene.reference.weights(t));
  }
}

class Rows final : public RowUpdateObserver {
 public:
  explicit Rows(ModelMemory& memory) : memory_(memory) {}
  void rows_updated(const RowUpdate& update) override {
    steps.push_back(update.step);
    const std::uint32_t count = memory_.download(update.count, 1)[0];
    CHECK(count <= update.most);
    REQUIRE(update.row_type == IndexType::int32);
    const auto numbers = memory_.download(static_cast<const std::int32_t*>(update.rows), count);
    rows.emplace_back(numbers.begin(), numbers.end());
    tables.assign(update.tables.begin(), update.tables.end());
  }

  std::vector<std::vector<std::int64_t>> rows;
  std::vector<std::uint64_t> steps;
  std::vector<TableView> tables;

 private:
  ModelMemory& memory_;
};

}  // namespace

TEST_CASE("pooled rows agree with the formulas in double") {
  Scene scene{OptimizerKind::sgd};
  for (int round = 0; round < 8; ++round) {
    const HostBags batch = scene.draw(1 + scene.random() % 20, round % 2 == 1);
    check_close(scene.look_up(batch), scene.reference.look_up(batch));
  }
}

TEST_CASE("weights after each step of every optimizer agree with the formulas in double") {
  for (const OptimizerKind kind : kRowOptimizers) {
    for (const bool weighted : {false, true}) {
      INFO(to_string(kind) << (weighted ? ", weighted" : ""));
      Scene scene{kind};
      for (int step = 0; step < 4; ++step) {
        const HostBags batch = scene.draw(1 + scene.random() % 20, weighted);
        const std::vector<float> gradient = scene.draw_gradient(batch.batch);
        scene.update(batch, gradient);
        scene.reference.update(batch, gradient);
        check_tables(scene);
      }
    }
  }
}

TEST_CASE("the gradients of the ids' weights agree with the formulas in double") {
  Scene scene{OptimizerKind::sgd};
  const HostBags batch = scene.draw(15, true);
  const std::vector<float> gradient = scene.draw_gradient(batch.batch);
  check_close(scene.factor_gradients(batch, gradient),
              scene.reference.factor_gradients(batch, gradient));
}

TEST_CASE("pooled rows written into a wider matrix leave its other columns unchanged") {
  Scene scene{OptimizerKind::sgd};
  const HostBags batch = scene.draw(5, false);
  const std::size_t columns = scene.bags.columns(), stride = columns + 7;
  const BatchTensor wide = scene.bench.memory.upload(std::vector<float>(5 * stride, 42.0F));
  scene.bags.look_up(scene.bench.memory.upload(batch), nullptr,
                     {wide.as<float>().data(), stride, 3}, scene.bench.main);
  const auto found =
      scene.bench.memory.download(static_cast<const float*>(wide.data()), 5 * stride);
  const auto expected = scene.reference.look_up(batch);
  for (std::size_t b = 0; b < 5; ++b) {
    for (std::size_t c = 0; c < stride; ++c) {
      const bool ours = c >= 3 && c < 3 + columns;
      CHECK(found[b * stride + c] ==
            Approx(ours ? expected[b * columns + c - 3] : 42.0).margin(1e-5));
    }
  }
}

TEST_CASE("a batch of empty bags pools to zeros and changes no row") {
  Scene scene{OptimizerKind::adam};
  HostBags batch = scene.draw(4, false);
  for (auto& feature : batch.bags) feature.assign(4, {});
  for (const float value : scene.look_up(batch)) CHECK(value == 0);
  scene.update(batch, scene.draw_gradient(4));
  check_tables(scene);
}

TEST_CASE("a batch without examples enqueues nothing") {
  Scene scene{OptimizerKind::adagrad};
  HostBags batch = scene.draw(1, false);
  batch.batch = 0;
  for (auto& feature : batch.bags) feature.clear();
  const auto launches = scene.bench.device.calls(Call::launch);
  scene.look_up(batch);
  scene.update(batch, {});
  CHECK(scene.bench.device.calls(Call::launch) == launches);
  check_tables(scene);
}

TEST_CASE("frozen tables do not change, and their update launches no kernel") {
  Scene scene{OptimizerKind::none};
  const auto launches = scene.bench.device.calls(Call::launch);
  scene.update(scene.draw(9, false), scene.draw_gradient(9));
  CHECK(scene.bench.device.calls(Call::launch) == launches);
  check_tables(scene);
}

TEST_CASE("weights start within 1/sqrt(rows), differ from table to table, and follow the seed") {
  const std::vector<TableConfig> configs{{"one", 100, 8, Pooling::sum, {"a"}},
                                         {"other", 100, 8, Pooling::sum, {"b"}}};
  const auto drawn = [&](std::uint64_t seed, std::size_t table) {
    ModelBench bench;
    const EmbeddingBags bags{bench.context, configs, {.seed = seed}};
    return bench.memory.download(static_cast<const float*>(bags.tables()[table].weights), 800);
  };
  const std::vector<float> weights = drawn(1, 0);
  double least = 1, most = -1, sum = 0;
  for (const float w : weights) {
    least = std::min<double>(least, w);
    most = std::max<double>(most, w);
    sum += w;
  }
  CHECK(least >= -0.1F);
  CHECK(least < -0.095);
  CHECK(most <= 0.1F);
  CHECK(most > 0.095);
  CHECK(std::abs(sum / 800) < 0.01);
  CHECK(drawn(1, 0) == weights);
  CHECK(drawn(2, 0) != weights);
  CHECK(drawn(1, 1) != weights);
}

TEST_CASE("the observer gets exactly the touched rows, in ascending order") {
  Scene scene{OptimizerKind::rowwise_adagrad};
  Rows observed{scene.bench.memory};
  scene.bags.add_observer(observed);
  const std::vector<std::size_t> table_of{0, 0, 1, 2, 2, 3};
  for (int step = 0; step < 3; ++step) {
    HostBags batch = scene.draw(6, false);
    std::set<std::int64_t> expected;
    for (std::size_t f = 0; f < table_of.size(); ++f) {
      const std::int64_t first = scene.bags.tables()[table_of[f]].first_row;
      for (const auto& bag : batch.bags[f]) {
        for (const std::int64_t id : bag) expected.insert(first + id);
      }
    }
    batch.bags[2][0].push_back(30);  // out of range: touches no row
    scene.update(batch, scene.draw_gradient(6));
    CHECK(observed.rows.back() == std::vector<std::int64_t>(expected.begin(), expected.end()));
  }
  CHECK(observed.steps == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(observed.tables.size() == 4);
}

TEST_CASE("an id out of range is named once with its table, and changes no row") {
  Scene scene{OptimizerKind::sgd};
  HostBags batch = scene.draw(3, false);
  const HostBags good = batch;
  CHECK_FALSE(scene.bags.invalid_id(scene.bench.main));
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}}) {
    batch = good;
    batch.bags[3][1].push_back(bad);
    batch.bags[5][0].push_back(77);
    batch.bags[3][1].shrink_to_fit();
    scene.look_up(batch);
    const auto observed = scene.bags.invalid_id(scene.bench.main);
    REQUIRE(observed);
    CHECK(observed->table == "averaged");
    CHECK(observed->feature == "d");
    CHECK(observed->value == bad);
    CHECK(observed->rows == 5);
    CHECK_FALSE(scene.bags.invalid_id(scene.bench.main));
  }
  const std::vector<float> gradient(3 * scene.bags.columns(), 0.0F);
  scene.update(batch, gradient);
  check_tables(scene);
}

TEST_CASE("a batch whose features differ from the tables' is refused with both lists") {
  Scene scene{OptimizerKind::sgd};
  HostBags batch = scene.draw(2, false);
  batch.features[1] = "nothing";
  CHECK_THROWS_WITH(scene.look_up(batch),
                    ContainsSubstring("nothing") && ContainsSubstring("a, b, c"));
}

TEST_CASE("invalid table configurations are refused with the name at fault") {
  ModelBench bench;
  const auto made = [&](std::vector<TableConfig> configs) {
    const EmbeddingBags bags{bench.context, std::move(configs), {}};
  };
  CHECK_THROWS_WITH(made({{"user", 0, 4, Pooling::sum, {"u"}}}), ContainsSubstring("'user'"));
  CHECK_THROWS_WITH(made({{"user", 4, 0, Pooling::sum, {"u"}}}), ContainsSubstring("width"));
  CHECK_THROWS_WITH(made({{"user", 4, 4, Pooling::sum, {}}}), ContainsSubstring("no features"));
  CHECK_THROWS_WITH(
      made({{"user", 4, 4, Pooling::sum, {"u"}}, {"user", 4, 4, Pooling::sum, {"v"}}}),
      ContainsSubstring("twice"));
  CHECK_THROWS_WITH(
      made({{"user", 4, 4, Pooling::sum, {"u"}}, {"item", 4, 4, Pooling::sum, {"u"}}}),
      ContainsSubstring("'u'"));
}

TEST_CASE("an optimizer is found by its name, and an unknown name is refused with the list") {
  for (const OptimizerKind kind : kRowOptimizers) CHECK(parse_optimizer(to_string(kind)) == kind);
  CHECK_THROWS_WITH(parse_optimizer("adagard"),
                    ContainsSubstring("'adagard'") && ContainsSubstring("rowwise-adagrad"));
}
