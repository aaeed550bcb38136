#pragma once

#include "loop/loop_work.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"

namespace millrace::experiment {

/** @brief The time that this rank needs to exchange `bytes` with the others. */
[[nodiscard]] Cost link_cost(const Workload& workload, std::size_t bytes);

/**
 * @brief The exchange between a workload's ranks, from the view of one rank.
 *
 * Everything is allocated and enqueued, but no data is moved. The link determines the time of an
 * all-to-all.
 */
class ModeledExchange final : public SparseExchange {
 public:
  ModeledExchange(LoopWork& work, const Workload& workload)
      : work_(work), workload_(workload), tag_(work.setting().allocator.tag("features")) {}

  std::unique_ptr<FeatureExchange> start(const InputTensors& input, Stream& stream) override;

 private:
  class Flight;

  LoopWork& work_;
  const Workload& workload_;
  const Tag tag_;
};

}  // namespace millrace::experiment
