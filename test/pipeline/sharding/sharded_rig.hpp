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

/// The examples of one step of all ranks. Each rank trains on a part of them.
struct GlobalBatch {
  struct Feature {
    std::vector<std::vector<std::int64_t>> bags;
    std::vector<std::vector<float>> weights;  ///< of a weighted feature
  };
  std::size_t examples = 0;
  std::vector<float> dense, labels;
  std::vector<Feature> features, weighted;

  /// Makes batch `step`. Some bags are empty.
  GlobalBatch(const SparseNNConfig& config, std::size_t step, std::size_t examples);
};

/// A model with tables for every kind of sharding, weighted and unweighted. SGD trains everything.
[[nodiscard]] SparseNNConfig sharded_config();

/// What a rank trained: names and values of tensors.
struct Trained {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  [[nodiscard]] const std::vector<float>& at(const std::string& name) const;
};

/// The parts of a rank's environment that tests vary.
struct RankSetup {
  CheckingObserver* checking = nullptr;
  Device* seen = nullptr;  ///< the device that the checker observes, if the rank's wraps it
  Policy policy = Policy::millrace();
  bool batches_from_driver = false;  ///< batches are allocated from the driver's pool
  bool cost_only = false;
  std::string left_out{};  ///< an entry of ShardedRank::tellings
};

/// One rank: its device memory, its streams and the model that trains there.
class ShardedRank {
 public:
  /// With `group` null this rank has all tables and uses LocalEmbeddings.
  ShardedRank(OrderedDevice& device, const RankSetup& setup, const SparseNNConfig& config,
              const ShardingPlan& plan, ProcessGroup* group);
  ShardedRank(OrderedDevice& device, CheckingObserver* checking, const SparseNNConfig& config,
              const ShardingPlan& plan, ProcessGroup* group, bool cost_only = false)
      : ShardedRank(device, {.checking = checking, .cost_only = cost_only}, config, plan, group) {}
  ~ShardedRank();

  /// Trains on the examples `first` to `first + count` - 1 of the batch.
  void step(const GlobalBatch& batch, std::size_t first, std::size_t count);
  /// The part of `step` up to the start of the exchange.
  [[nodiscard]] std::unique_ptr<FeatureExchange> start(const GlobalBatch& batch, std::size_t first,
                                                       std::size_t count);
  /// The part of `step` after the exchange.
  void train(const GlobalBatch& batch, std::size_t first, std::size_t count,
             const SparseFeatures& features);
  /// Trains steps 0 to `steps` - 1 through a pipeline. Lookups are ordered after the dense
  /// optimizer if they read dense parameters.
  void run(PipelineKind kind, const PipelineOptions& options, std::size_t steps,
           std::size_t examples, std::size_t first, std::size_t count);
  bool goes_on = false;  ///< `run` continues after a driver error
  /// Trains with the stale loop that semi_sync must equal, written by hand.
  void run_stale(const StaleOptions& options, std::size_t steps, std::size_t examples,
                 std::size_t first, std::size_t count);
  /// All uses and frees that allocators were told about, including the left-out one.
  [[nodiscard]] std::set<std::string> tellings() const;
  [[nodiscard]] SparseExchange& exchange() { return *exchange_; }
  [[nodiscard]] SparseNN& model() { return *model_; }
  [[nodiscard]] ModelContext& context() { return context_; }
  /// As ShardedModel returns it; for a rank with a group.
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
  /// Keeps uploaded bytes alive. Otherwise another rank could get the same heap memory, and the
  /// race checker would report that reuse.
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

/// What a single rank with all tables and examples trains.
[[nodiscard]] Trained trained_alone(const SparseNNConfig& config, std::size_t steps,
                                    std::size_t examples);

/// The largest difference between a rank's values and those of a single rank, relative to the
/// largest value of the tensor. A shard is compared with its rows of the whole table. Tensors that
/// every rank has are compared on every rank.
[[nodiscard]] double difference(const SparseNNConfig& config, const ShardingPlan& plan,
                                const Trained& alone, unsigned rank, const Trained& of_rank);

/// Plans by name: "table-wise", "row-wise", "data-parallel", "mixed".
[[nodiscard]] ShardingPlan plan_named(const std::string& name, const SparseNNConfig& config,
                                      unsigned ranks);

}  // namespace millrace::test
