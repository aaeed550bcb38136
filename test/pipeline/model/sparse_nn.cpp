#include "millrace/pipeline/model/sparse_nn.hpp"

#include <cmath>
#include <set>
#include <stdexcept>

#include "test/pipeline/model/small_model.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Each user, item and tag has its own taste, drawn from the seed. Labels follow the sum of tastes.
class Tastes {
 public:
  Tastes() : random_(seed()) {
    for (auto* tastes : {&user_, &item_, &tag_}) {
      for (float& taste : *tastes) taste = draw();
    }
  }

  HostExamples draw_examples(std::size_t batch) {
    HostExamples drawn{.dense_features = 3};
    drawn.sparse = draw_bags(random_, {"u", "bought", "seen"}, {40, 60, 60}, batch, 4, false);
    drawn.weighted = draw_bags(random_, {"t"}, {20}, batch, 3, true);
    for (std::size_t b = 0; b < batch; ++b) {
      double score = 0;
      for (const auto id : drawn.sparse.bags[0][b]) score += user_[static_cast<std::size_t>(id)];
      for (std::size_t f = 1; f < 3; ++f) {
        for (const auto id : drawn.sparse.bags[f][b]) {
          score += item_[static_cast<std::size_t>(id)] /
                   static_cast<double>(drawn.sparse.bags[f][b].size());
        }
      }
      for (std::size_t i = 0; i < drawn.weighted.bags[0][b].size(); ++i) {
        score += tag_[static_cast<std::size_t>(drawn.weighted.bags[0][b][i])] *
                 drawn.weighted.weights[0][b][i];
      }
      for (int d = 0; d < 3; ++d) drawn.dense.push_back(draw());
      score += drawn.dense[3 * b];
      drawn.labels.push_back(score > 0 ? 1.0F : 0.0F);
    }
    return drawn;
  }

 private:
  float draw() { return static_cast<float>(random_() % 2001) / 500.0F - 2; }

  std::mt19937_64 random_;
  std::vector<float> user_ = std::vector<float>(40);
  std::vector<float> item_ = std::vector<float>(60);
  std::vector<float> tag_ = std::vector<float>(20);
};

void step(SparseNN& model, Stream& main, const InputTensors& input) {
  train_plainly(model, main, input, features_of(input));
}

struct Training {
  explicit Training(const SparseNNConfig& config = small_model(),
                    VirtualMachine::Options options = VirtualMachine::Options{})
      : bench(options), model(bench.context, config) {}

  void train(int steps, std::size_t batch) {
    for (int i = 0; i < steps; ++i)
      step(model, bench.main, bench.memory.upload(tastes.draw_examples(batch)));
  }
  double test_auc() {
    const HostExamples examples = tastes.draw_examples(2000);
    const InputTensors input = bench.memory.upload(examples);
    const auto lookup = model.look_up(features_of(input), bench.main);
    model.forward(input, *lookup);
    const double auc = counted_area_under_curve(model.logits(), examples.labels);
    model.abandon();
    return auc;
  }
  std::vector<float> weights() { return bench.memory.download(model.state()); }

  ModelBench bench;
  SparseNN model;
  Tastes tastes;
};

}  // namespace

TEST_CASE("a model learns the labels of its data, and frozen tables prevent that") {
  Training training;
  CHECK(std::abs(training.test_auc() - 0.5) < 0.3);
  training.train(150, 128);
  CHECK(training.test_auc() > 0.9);

  SparseNNConfig config = small_model();
  config.table_optimizer.kind = OptimizerKind::none;
  Training frozen{config};
  frozen.train(150, 128);
  CHECK(frozen.test_auc() < 0.85);
}

TEST_CASE("a model that concatenates vectors of different widths learns as well") {
  SparseNNConfig config = small_model();
  config.interaction = Interaction::concatenate;
  config.tables[0].width = 5;
  config.dense_arch = {};
  Training training{config};
  training.train(150, 128);
  CHECK(training.test_auc() > 0.9);
}

TEST_CASE("training gives the same bits under every schedule") {
  const auto weights = [](VirtualMachine::Options options) {
    Training training{small_model(), options};
    training.train(6, 33);
    training.train(2, 70);
    return training.weights();
  };
  const std::vector<float> expected = weights({});
  CHECK(weights({}) == expected);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CHECK(weights({.schedule = VirtualMachine::Schedule::adversarial, .seed = seed}) == expected);
  }
}

TEST_CASE("every optimizer of tables and of dense parameters lowers the loss") {
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adagrad, OptimizerKind::adam}) {
    SparseNNConfig config = small_model();
    const float rate = kind == OptimizerKind::sgd ? 20 : 1;  // the gradient of a mean is small
    config.table_optimizer = {.kind = kind, .learning_rate = 0.15F * rate};
    config.dense_optimizer = {.kind = kind, .learning_rate = 0.01F * rate};
    Training training{config};
    const InputTensors input = training.bench.memory.upload(training.tastes.draw_examples(64));
    step(training.model, training.bench.main, input);
    const float first = training.model.loss();
    for (int i = 0; i < 150; ++i) step(training.model, training.bench.main, input);
    INFO(to_string(kind));
    CHECK(training.model.loss() < 0.95 * first);
  }
}

TEST_CASE("the memory of a step is freed at its end") {
  Training training;
  training.train(2, 32);
  const auto held = [&] { return training.bench.allocator.statistics().bytes.requested.current; };
  const auto after = held();
  training.train(3, 32);
  CHECK(held() == after);
  const InputTensors input = training.bench.memory.upload(training.tastes.draw_examples(32));
  auto lookup = training.model.look_up(features_of(input), training.bench.main);
  training.model.forward(input, *lookup);
  training.model.abandon();
  CHECK(held() > after);  // the input and the looked-up rows
  CHECK_THROWS_AS(training.model.backward(*lookup), std::logic_error);
}

TEST_CASE("an empty batch has a loss of 0 and does not change the tables") {
  Training training;
  training.train(2, 16);
  const TableView& user = training.model.bags().tables()[0];
  const auto table = [&] {
    return training.bench.memory.download(static_cast<const float*>(user.weights), 40 * 8);
  };
  const std::vector<float> before = table();
  training.train(1, 0);
  CHECK(training.model.loss() == 0);
  CHECK(training.model.logits().empty());
  CHECK(table() == before);
  training.train(1, 16);
  CHECK(table() != before);
}

TEST_CASE("an id out of range is reported once with the loss, with its table and value") {
  Training training;
  HostExamples examples = training.tastes.draw_examples(8);
  examples.weighted.bags[0][3].push_back(20);
  examples.weighted.weights[0][3].push_back(1.0F);
  step(training.model, training.bench.main, training.bench.memory.upload(examples));
  CHECK_THROWS_WITH(training.model.loss(), ContainsSubstring("id 20") &&
                                               ContainsSubstring("'tag'") &&
                                               ContainsSubstring("20 rows"));
  CHECK(std::isfinite(training.model.loss()));
}

TEST_CASE("shapes that disagree are refused before anything is enqueued") {
  Training training;
  const InputTensors input = training.bench.memory.upload(training.tastes.draw_examples(8));
  const InputTensors other = training.bench.memory.upload(training.tastes.draw_examples(9));
  const auto lookup = training.model.look_up(features_of(input), training.bench.main);
  const auto of_other = training.model.look_up(features_of(other), training.bench.main);
  const auto launches = training.bench.device.calls(Call::launch);
  InputTensors wrong = input;
  wrong.dense_features = 4;
  CHECK_THROWS_WITH(training.model.forward(wrong, *lookup), ContainsSubstring("dense features"));
  wrong = input;
  wrong.labels = input.labels.slice(0, 4);
  CHECK_THROWS_WITH(training.model.forward(wrong, *lookup), ContainsSubstring("labels"));
  CHECK_THROWS_WITH(training.model.forward(input, *of_other), ContainsSubstring("bags"));
  const SparseFeatures mixed{input.sparse, other.weighted};
  CHECK_THROWS_WITH(training.model.look_up(mixed, training.bench.main), ContainsSubstring("bags"));
  CHECK(training.bench.device.calls(Call::launch) == launches);
}

TEST_CASE("invalid models are refused with the reason") {
  ModelBench bench;
  const auto made = [&](auto change) {
    SparseNNConfig config = small_model();
    change(config);
    const SparseNN model{bench.context, config};
  };
  CHECK_THROWS_WITH(made([](auto& config) { config.tables[1].width = 4; }),
                    ContainsSubstring("'item'") && ContainsSubstring("4 wide"));
  CHECK_THROWS_WITH(made([](auto& config) { config.dense_features = 0; }),
                    ContainsSubstring("dense"));
  CHECK_THROWS_WITH(made([](auto& config) { config.position_weights["t"] = 2; }),
                    ContainsSubstring("'t'"));
  CHECK_THROWS_WITH(
      made([](auto& config) { config.dense_optimizer.kind = OptimizerKind::rowwise_adagrad; }),
      ContainsSubstring("rowwise-adagrad"));
}

TEST_CASE("the state names every tensor once, and has everything that training changes") {
  Training training;
  std::set<std::string> names;
  for (const StateTensor& tensor : training.model.state().tensors) {
    CHECK(names.insert(tensor.name).second);
  }
  CHECK(names.count("table.user.weights") == 1);
  CHECK(names.count("table.user.m") == 1);
  CHECK(names.count("weighted_table.tag.weights") == 1);
  CHECK(names.count("position_weights") == 1);
  CHECK(names.count("over.1.bias.v") == 1);

  // A copy of the state in another model trains on with the same bits.
  training.train(4, 32);
  SparseNNConfig config = small_model();
  config.seed += 1;
  Training other{config};
  ModelState from = training.model.state(), to = other.model.state();
  for (std::size_t i = 0; i < from.tensors.size(); ++i) {
    const auto values = training.bench.memory.download(
        static_cast<const float*>(from.tensors[i].data), from.tensors[i].size);
    other.bench.device.copy(to.tensors[i].data, values.data(), values.size() * sizeof(float),
                            CopyKind::host_to_device, other.bench.main.handle());
  }
  for (std::size_t i = 0; i < from.counters.size(); ++i)
    *to.counters[i].value = *from.counters[i].value;
  const HostExamples next = training.tastes.draw_examples(32);
  step(training.model, training.bench.main, training.bench.memory.upload(next));
  step(other.model, other.bench.main, other.bench.memory.upload(next));
  CHECK(other.weights() == training.weights());
}

TEST_CASE("a cost-only model of any size enqueues the same operations and touches no data") {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device({.data = false});
  OrderedDevice ordered{device};
  DeviceSource source{device};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  Stream main{ordered, {.name = "main"}};
  ModelContext context{allocator, main, true};
  SparseNNConfig config = small_model();
  config.tables[0].rows = std::size_t{1} << 30;  // 32 GiB
  SparseNN model{context, config};
  CHECK(allocator.statistics().bytes.requested.current > std::size_t{32} << 30);
  Tastes tastes;
  ModelMemory memory{allocator, main};
  const auto before = device.calls(Call::launch);
  step(model, main, memory.upload(tastes.draw_examples(64)));
  const auto launches = device.calls(Call::launch) - before;

  Training real;
  const auto real_before = real.bench.device.calls(Call::launch);
  real.train(1, 64);
  CHECK(launches == real.bench.device.calls(Call::launch) - real_before);
  main.synchronize();
}
