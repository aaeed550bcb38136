#include "test/gpu/bag_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::test {
namespace {

constexpr double kUnit = 0x1p-24;  // the relative error of one operation

/// Returns the rounding errors of a step, in units of the largest value that the number had. A step
/// is at most twice that value. Its relative error is the sum over its operations. A root halves an
/// error.
double roundings_of_step(OptimizerKind kind, double width, int steps) {
  switch (kind) {
    case OptimizerKind::none:
      return 0;
    case OptimizerKind::sgd:  // the product, the difference
      return 2 + 1;
    case OptimizerKind::rowwise_adagrad:  // a sum of squares; root, epsilon, quotient, product
      return 2 * ((width + 2 + steps) / 2 + 4) + 1;
    case OptimizerKind::adagrad:  // squares of all steps; the same four operations
      return 2 * (2 * steps / 2.0 + 4) + 1;
    case OptimizerKind::adam:  // of m, which is 0.9 m plus at most 1.9 m
      return 8;
  }
  return 0;
}

/// Returns the rounding errors of Adam's step. m may cancel. Its error is then that of the largest
/// gradient, and the step divides it by the root of v, which is at least the largest gradient
/// divided by the root of the number of steps.
double roundings_of_adam(const Optimizer& optimizer, int steps) {
  if (optimizer.kind != OptimizerKind::adam) return 0;
  return static_cast<double>(optimizer.learning_rate) * std::sqrt(steps) * (2 * steps + 9);
}

}  // namespace

Bounds bounds_of(const Optimizer& optimizer, bool weighted, int steps, std::size_t examples) {
  ModelBench host;
  BagSteps<ModelBench> trace{host, optimizer};
  std::vector<float> largest;
  trace.run(weighted, steps, examples, Sums::exact, [&] {
    const std::vector<float> now = host.memory.download(trace.state());
    largest.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      largest[i] = std::max(largest[i], std::abs(now[i]));
    }
  });

  Bounds bounds;
  double weight = 0, of_weight = 0, widest = 0;
  std::size_t i = 0;
  for (const StateTensor& tensor : trace.state().tensors) {
    const std::size_t end = i + tensor.size;
    double width = 0;
    for (const TableConfig& table : tables()) {
      if (tensor.name.starts_with("." + table.name + ".")) width = static_cast<double>(table.width);
    }
    widest = std::max(widest, width);
    for (; i < end; ++i) {
      const double of_step = roundings_of_step(optimizer.kind, width, steps) * largest[i] +
                             roundings_of_adam(optimizer, steps);
      bounds.weights.push_back(2 * steps * kUnit * of_step);  // both results may have this error
      if (!tensor.name.ends_with(".weights")) continue;
      weight = std::max<double>(weight, largest[i]);
      of_weight = std::max(of_weight, bounds.weights.back());
    }
  }
  // Sums of products with weights: the difference of the weights, and a rounding per operation.
  constexpr double kLargestFactor = 1.25, kIds = 4;  // maxima of exact draws
  const auto of_sum = [&](double terms) {
    return terms * (of_weight + 2 * (terms + 2) * kUnit * weight);
  };
  bounds.pooled = kLargestFactor * of_sum(kIds);
  bounds.factor_gradients = of_sum(widest);  // gradients are at most 1
  return bounds;
}

double largest_share(const std::vector<float>& found, const std::vector<float>& expected,
                     const std::function<double(std::size_t)>& bound) {
  REQUIRE(found.size() == expected.size());
  double share = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(double{found[i]} - double{expected[i]});
    if (off != 0) share = std::max(share, off / bound(i));
    if (!std::isfinite(off)) return std::numeric_limits<double>::infinity();
  }
  return share;
}

}  // namespace millrace::test
