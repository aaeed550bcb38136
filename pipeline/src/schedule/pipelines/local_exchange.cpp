#include "millrace/pipeline/schedule/local_exchange.hpp"

#include <utility>

#include "millrace/pipeline/data/jagged_operations.hpp"

namespace millrace {
namespace {

class LocalFeatures final : public FeatureExchange {
 public:
  explicit LocalFeatures(SparseFeatures features) : features_(std::move(features)) {}

  // Nothing to receive: one rank knows its own sizes.
  void receive(Waits) override {}
  SparseFeatures arrange() override { return std::move(features_); }

 private:
  SparseFeatures features_;
};

}  // namespace

LocalExchange::LocalExchange(Allocator& memory, std::vector<std::string> features,
                             std::vector<std::string> weighted, bool cost_only)
    : memory_(memory),
      features_(std::move(features)),
      weighted_(std::move(weighted)),
      cost_only_(cost_only),
      tag_(memory.tag("features")) {}

KeyedJaggedTensor LocalExchange::gather(const KeyedJaggedTensor& input,
                                        const std::vector<std::string>& features,
                                        Stream& stream) const {
  if (features.empty()) return {};
  std::vector<std::size_t> order;
  order.reserve(features.size());
  for (const std::string& feature : features) order.push_back(input.find(feature));
  return permute({.memory = memory_, .stream = stream, .cost_only = cost_only_, .tag = tag_}, input,
                 order);
}

std::unique_ptr<FeatureExchange> LocalExchange::start(const InputTensors& input, Stream& stream) {
  return std::make_unique<LocalFeatures>(SparseFeatures{gather(input.sparse, features_, stream),
                                                        gather(input.weighted, weighted_, stream)});
}

}  // namespace millrace
