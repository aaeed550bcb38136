#include "test/support/model_bench.hpp"

#include <algorithm>
#include <numeric>

#include "millrace/pipeline/model/sparse_nn.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

template <typename Values>
std::vector<std::int32_t> narrowed(const Values& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::size_t HostBags::value_count() const {
  std::size_t count = 0;
  for (const auto& feature : bags) {
    for (const auto& bag : feature) count += bag.size();
  }
  return count;
}

HostBags draw_bags(std::mt19937_64& random, std::vector<std::string> features,
                   const std::vector<std::size_t>& rows, std::size_t batch, std::size_t longest,
                   bool weighted) {
  HostBags drawn{.features = std::move(features), .batch = batch};
  const auto below = [&](std::size_t bound) { return random() % bound; };
  for (const std::size_t of_table : rows) {
    auto& bags = drawn.bags.emplace_back(batch);
    const auto hot = static_cast<std::int64_t>(below(of_table));
    for (auto& bag : bags) {
      bag.resize(below(longest + 1));
      for (auto& id : bag) id = below(3) == 0 ? hot : static_cast<std::int64_t>(below(of_table));
    }
    if (!weighted) continue;
    auto& weights = drawn.weights.emplace_back(batch);
    for (std::size_t b = 0; b < batch; ++b) {
      weights[b].resize(bags[b].size());
      for (float& weight : weights[b]) weight = static_cast<float>(below(2000)) / 1000.0F - 0.7F;
    }
  }
  drawn.value_type = below(2) == 0 ? IndexType::int32 : IndexType::int64;
  drawn.length_type = below(2) == 0 ? IndexType::int32 : IndexType::int64;
  return drawn;
}

KeyedJaggedTensor ModelMemory::upload(const HostBags& bags) {
  if (bags.features.empty()) return {};
  JaggedLayout layout{.keys = make_keys(bags.features),
                      .batch_size = bags.batch,
                      .weighted = !bags.weights.empty(),
                      .value_type = bags.value_type,
                      .length_type = bags.length_type};
  std::vector<std::int64_t> values, lengths, offsets{0};
  std::vector<float> weights;
  for (std::size_t f = 0; f < bags.features.size(); ++f) {
    const std::size_t before = values.size();
    for (std::size_t b = 0; b < bags.batch; ++b) {
      const auto& bag = bags.bags[f][b];
      values.insert(values.end(), bag.begin(), bag.end());
      lengths.push_back(static_cast<std::int64_t>(bag.size()));
      offsets.push_back(static_cast<std::int64_t>(values.size()));
      if (layout.weighted) {
        weights.insert(weights.end(), bags.weights[f][b].begin(), bags.weights[f][b].end());
      }
    }
    layout.counts.push_back(values.size() - before);
  }
  const auto as = [&](IndexType type, const std::vector<std::int64_t>& numbers) {
    return type == IndexType::int32 ? upload(narrowed(numbers)) : upload(numbers);
  };
  return {layout,
          {.values = as(bags.value_type, values),
           .lengths = as(bags.length_type, lengths),
           .offsets = as(bags.length_type, offsets),
           .weights = upload(weights)}};
}

InputTensors ModelMemory::upload(const HostExamples& examples) {
  return {.batch_size = examples.labels.size(),
          .dense_features = examples.dense_features,
          .dense = upload(examples.dense),
          .labels = upload(examples.labels),
          .sparse = upload(examples.sparse),
          .weighted = upload(examples.weighted)};
}

std::vector<float> ModelMemory::download(const ModelState& state) {
  std::vector<float> all;
  for (const StateTensor& tensor : state.tensors) {
    std::vector<float> values(tensor.size);
    if (tensor.size != 0) {
      device().copy(values.data(), tensor.data, values.size() * sizeof(float), tensor.download(),
                    main_.handle());
    }
    main_.synchronize();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Counts the pairs of a positive and a negative example that the scores put in the right order.
double counted_area_under_curve(const std::vector<float>& scores,
                                const std::vector<float>& labels) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double positives = 0, negatives = 0, won = 0;
  for (std::size_t i = 0; i < order.size();) {
    double tied_positives = 0, tied_negatives = 0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i) {
      (labels[order[i]] > 0 ? tied_positives : tied_negatives) += 1;
    }
    won += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  return won / (positives * negatives);
}

void train_small_model(ModelContext& context, ModelMemory& memory, Stream& main,
                       OptimizerKind kind) {
  SparseNN model{
      context,
      {.dense_features = 3,
       .tables = {{"user", 400, 16, Pooling::sum, {"u"}}, {"item", 60, 16, Pooling::mean, {"i"}}},
       .dense_arch = {8, 16},
       .over_arch = {8},
       .table_optimizer = {.kind = kind},
       .dense_optimizer = {.kind = kind}}};
  std::mt19937_64 random{seed()};
  for (int i = 0; i < 3; ++i) {
    HostExamples drawn{.dense_features = 3};
    drawn.sparse = draw_bags(random, {"u", "i"}, {400, 60}, 20, 4, false);
    drawn.labels.assign(20, 1.0F);
    drawn.dense.assign(60, 0.5F);
    const InputTensors input = memory.upload(drawn);
    train_plainly(model, main, input, features_of(input));
  }
  static_cast<void>(model.loss());
}

}  // namespace millrace::test
