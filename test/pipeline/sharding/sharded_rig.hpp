#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"
#include "millrace/pipeline/sharding/sharded_model.hpp"
#include "test/support/tampered_allocator.hpp"

namespace millrace::test {

/// Examples of a step, of all ranks: what one rank trains on is a part of it.
struct GlobalBatch {
  struct Feature {
    std::vector<std::vector<std::int64_t>> bags;
    std::vector<std::vector<float>> weights;  ///< of a feature with weights
  };
  std::size_t examples = 0;
  std::vector<float> dense, labels;
  std::vector<Feature> features, weighted;

  /// Batch `step`: some bags are empty.
  GlobalBatch(const SparseNNConfig& config, std::size_t step, std::size_t examples);
};

/// A model of tables for every kind of sharding, with and without weights; SGD throughout.
[[nodiscard]] SparseNNConfig sharded_config();

/// What a rank trained with: the names of tensors and their values.
struct Trained {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  [[nodiscard]] const std::vector<float>& at(const std::string& name) const;
};

/// What a rank runs on.
struct RankSetup {
  CheckingObserver* checking = nullptr;
  Device* seen = nullptr;  ///< by the checker, where the rank's device stands for that one
  Policy policy = Policy::millrace();
  bool batches_from_driver = false;  ///< from its pool
  bool cost_only = false;
  std::string left_out{};  ///< one of ShardedRank::tellings
};

/// One rank: a device's memory and stream, and what trains there.
class ShardedRank {
 public:
  /// `group` null: all tables here, by LocalEmbeddings.
  ShardedRank(OrderedDevice& device, const RankSetup& setup, const SparseNNConfig& config,
              const ShardingPlan& plan, ProcessGroup* group);
  ShardedRank(OrderedDevice& device, CheckingObserver* checking, const SparseNNConfig& config,
              const ShardingPlan& plan, ProcessGroup* group, bool cost_only = false)
      : ShardedRank(device, {.checking = checking, .cost_only = cost_only}, config, plan, group) {}
  ~ShardedRank();

  /// Examples `first` to before `first + count` of the batch.
  void step(const GlobalBatch& batch, std::size_t first, std::size_t count);
  /// The part of `step` up to the exchange's start.
  [[nodiscard]] std::unique_ptr<FeatureExchange> start(const GlobalBatch& batch, std::size_t first,
                                                       std::size_t count);
  /// And what comes after the exchange.
  void train(const GlobalBatch& batch, std::size_t first, std::size_t count,
             const SparseFeatures& features);
  /// Steps 0 to before `steps` through a pipeline; lookups are ordered after the dense optimizer if
  /// they have to be.
  void run(PipelineKind kind, const PipelineOptions& options, std::size_t steps,
           std::size_t examples, std::size_t first, std::size_t count);
  bool goes_on = false;  ///< `run` does, behind an error of the driver
  /// The stale loop that semi_sync is to equal, written by hand.
  void run_stale(const StaleOptions& options, std::size_t steps, std::size_t examples,
                 std::size_t first, std::size_t count);
  /// What allocators were told of uses and frees, or were not.
  [[nodiscard]] std::set<std::string> tellings() const;
  [[nodiscard]] SparseExchange& exchange() { return *exchange_; }
  [[nodiscard]] SparseNN& model() { return *model_; }
  [[nodiscard]] ModelContext& context() { return context_; }
  /// As ShardedModel has them: of a rank with a group.
  [[nodiscard]] std::unique_ptr<WholeState> whole_state() {
    return sharded_->whole_state(*model_, context_);
  }
  [[nodiscard]] ModelState state() { return sharded_->state(*model_); }
  [[nodiscard]] Trained trained();

 private:
  [[nodiscard]] InputTensors input(const GlobalBatch& batch, std::size_t first, std::size_t count);
  struct Jagged;
  [[nodiscard]] KeyedJaggedTensor uploaded(const Jagged& features);
  [[nodiscard]] BatchTensor uploaded(const void* from, std::size_t bytes);

  [[nodiscard]] Allocator& checked(const RankSetup& setup, Allocator& memory,
                                   std::optional<CheckedAllocator>& checked, CheckedMemory kind);

  class Source;

  SparseNNConfig config_;
  CheckingObserver* checking_;
  /// Kept: that memory of the heap is another rank's by now is not to be seen by a race checker.
  std::deque<std::vector<std::byte>> uploaded_from_;
  Device& device_;
  DeviceSource source_;
  PinnedSource pinned_source_;
  CachingAllocator caching_, caching_pinned_;
  std::optional<CheckedAllocator> checked_, checked_pinned_;
  Allocator& memory_;
  DriverAllocator pool_;
  TamperedAllocator batches_, features_, model_memory_, pinned_;
  PipelineStreams streams_;
  Stream& main_;
  ModelContext context_, exchange_context_;
  std::optional<ShardedModel> sharded_;
  std::unique_ptr<SparseNN> model_;
  std::unique_ptr<SparseExchange> exchange_;
};

/// What one rank with all tables and examples gets.
[[nodiscard]] Trained trained_alone(const SparseNNConfig& config, std::size_t steps,
                                    std::size_t examples);

/// The largest difference of what the ranks have from what one has, relative to the largest value
/// of its tensor. Shards are compared with their rows, what every rank has on every rank.
[[nodiscard]] double difference(const SparseNNConfig& config, const ShardingPlan& plan,
                                const Trained& alone, unsigned rank, const Trained& of_rank);

/// Plans by name: "table-wise", "row-wise", "data-parallel", "mixed".
[[nodiscard]] ShardingPlan plan_named(const std::string& name, const SparseNNConfig& config,
                                      unsigned ranks);

}  // namespace millrace::test
