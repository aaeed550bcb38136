#include "test/gpu/bag_steps.hpp"

#include <bit>
#include <cmath>

namespace millrace::test {

HostBags draw_batch(std::mt19937_64& random, const std::vector<std::string>& features,
                    std::size_t examples, bool weighted, Sums sums) {
  HostBags batch = draw_bags(random, features, kRows, examples, kLongestBag, weighted);
  if (sums == Sums::rounded) return batch;
  for (std::size_t f = 0; f < batch.bags.size(); ++f) {
    for (std::size_t b = 0; b < examples; ++b) {
      auto& bag = batch.bags[f][b];
      bag.resize(std::bit_floor(bag.size()));
      if (!weighted) continue;
      auto& weights = batch.weights[f][b];
      weights.resize(bag.size());
      for (float& weight : weights) weight = std::round(weight * 8) / 8;
    }
  }
  return batch;
}

std::vector<float> draw_gradient(std::mt19937_64& random, std::size_t size, Sums sums) {
  std::vector<float> gradient(size);
  for (float& g : gradient) {
    g = sums == Sums::exact ? static_cast<float>(random() % 33) / 16 - 1
                            : static_cast<float>(random() % 2001) / 1000.0F - 1;
  }
  return gradient;
}

}  // namespace millrace::test
