#include "millrace/pipeline/model/position_weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dispatch.hpp"
#include "model/host/position_weights.hpp"

namespace millrace {

using namespace model;

namespace {

Declared cost_of(const char* name, std::size_t ids) {
  return {.name = name, .flops = static_cast<double>(ids), .bytes = 8 * static_cast<double>(ids)};
}

}  // namespace

PositionParameters PositionParameters::declare(DenseParameters& parameters,
                                               const std::vector<std::string>& features,
                                               const std::map<std::string, std::size_t>& lengths) {
  for (const auto& [name, length] : lengths) {
    if (length == 0) {
      throw std::invalid_argument(fmt::format("feature '{}' has 0 position weights", name));
    }
    if (std::find(features.begin(), features.end(), name) == features.end()) {
      throw std::invalid_argument(
          fmt::format("position weights for feature '{}', which no table uses (expected {})", name,
                      fmt::join(features, ", ")));
    }
  }
  PositionParameters declared;
  std::size_t count = 0;
  for (const std::string& feature : features) {
    const auto found = lengths.find(feature);
    if (found == lengths.end()) continue;
    declared.of_feature[feature] = {count, found->second};
    count += found->second;
  }
  if (count > 0) declared.all = parameters.add_constant("position_weights", count, 1);
  return declared;
}

PositionWeights::PositionWeights(ModelContext& context, DenseParameters& parameters,
                                 const PositionParameters& declared,
                                 const std::vector<std::string>& features)
    : context_(context),
      parameters_(parameters),
      features_(features.size()),
      weights_(declared.all) {
  // A feature without position weights has 0 of them, so kernels need no special case.
  std::vector<std::int64_t> starts{0}, places;
  for (const std::string& feature : features) {
    const auto found = declared.of_feature.find(feature);
    const Parameter weights = found == declared.of_feature.end() ? Parameter{} : found->second;
    starts.push_back(starts.back() + static_cast<std::int64_t>(weights.size));
    places.push_back(static_cast<std::int64_t>(weights.offset));
  }
  count_ = static_cast<std::size_t>(starts.back());
  if (empty()) return;
  const auto upload = [&](const std::vector<std::int64_t>& numbers) {
    Buffer buffer{context.allocator(), numbers.size() * sizeof(std::int64_t), context.main(),
                  context.tags().parameters};
    context.device().copy(buffer.data(), numbers.data(), buffer.size(), CopyKind::host_to_device,
                          context.main().handle());
    return buffer;
  };
  starts_ = upload(starts);
  places_ = upload(places);
}

template <typename Offset>
BagPositions<Offset> PositionWeights::bags_of(const KeyedJaggedTensor& batch,
                                              const BatchTensor& positions) const {
  const std::size_t examples = batch.batch_size();
  return {.starts = reads(static_cast<const std::int64_t*>(starts_.data()), features_ + 1),
          .places = reads(static_cast<const std::int64_t*>(places_.data()), features_),
          .offsets =
              reads(static_cast<const Offset*>(batch.offsets().data()), features_ * examples + 1),
          .positions =
              reads(static_cast<const float*>(positions.data()), positions.bytes() / sizeof(float)),
          .shape = {features_, examples, count_}};
}

void PositionWeights::compute_factors(const KeyedJaggedTensor& batch, const BatchTensor& positions,
                                      float* factors, StreamRef stream) {
  const std::size_t ids = batch.value_count();
  if (empty() || ids == 0) return;
  with_type(batch.layout().length_type, [&]<typename Offset>(Offset) {
    enqueue<host::position_factors<float, Offset>, cuda::position_factors<Offset>>(
        context_, stream, cost_of("position weights", ids),
        PositionFactorsArguments<float, Offset>{
            .factors = writes(factors, ids),
            .weights =
                reads(static_cast<const float*>(parameters_.values(weights_)), weights_.size),
            .bags = bags_of<Offset>(batch, positions)});
  });
}

void PositionWeights::add_gradients(const KeyedJaggedTensor& batch, const BatchTensor& positions,
                                    const float* factor_gradients, StreamRef stream) {
  const std::size_t ids = batch.value_count();
  if (empty() || ids == 0) return;
  with_type(batch.layout().length_type, [&]<typename Offset>(Offset) {
    enqueue<host::position_factors_backward<float, Offset>,
            cuda::position_factors_backward<Offset>>(
        context_, stream, cost_of("position weights backward", ids),
        PositionFactorsBackwardArguments<float, Offset>{
            .weight_gradients = updates(parameters_.gradients(weights_), weights_.size),
            .factor_gradients = reads(factor_gradients, ids),
            .bags = bags_of<Offset>(batch, positions)});
  });
}

}  // namespace millrace
