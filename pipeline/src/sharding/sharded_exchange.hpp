#pragma once

#include <memory>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"
#include "sharding/layout.hpp"
#include "sharding/pinned_pool.hpp"

namespace millrace::sharding {

/** @brief Sends features to the ranks that have their tables. */
class ShardedExchange final : public SparseExchange {
 public:
  ShardedExchange(ModelContext& context, std::shared_ptr<const Layout> layout, ProcessGroup& group);

  std::unique_ptr<FeatureExchange> start(const InputTensors& input, Stream& stream) override;
  void exhausted() override;
  void left_out(const std::exception& why) noexcept override;

 private:
  class Flight;

  ModelContext& context_;
  const std::shared_ptr<const Layout> layout_;
  ProcessGroup& group_;
  /** Number of sizes that a rank sends to each rank: examples, and ids of each slot. */
  const std::size_t width_;
  const Tag tag_;
  const std::shared_ptr<PinnedPool> pinned_;
};

}  // namespace millrace::sharding
