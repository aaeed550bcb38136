#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"
#include "millrace/pipeline/schedule/local_exchange.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"
#include "test/pipeline/schedule/tiny_model.hpp"
#include "test/support/leaving_out_device.hpp"
#include "test/support/tampered_allocator.hpp"

namespace millrace::test {

enum class RigModel {
  tiny,
  sparse_nn,        ///< with position weights
  sparse_nn_plain,  ///< without position weights: its lookups read no dense parameters
  sparse_nn_long,   ///< with position weights, and more rows than a small cache holds
};

/// One combination of a pipeline's options.
struct PipelineCase {
  PipelineKind kind = PipelineKind::sparse_dist;
  CopyMethod copy = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  std::string policy = "millrace";  ///< or "torch"
  std::uint64_t schedule = 0;       ///< 0: timed; otherwise the seed of an adversarial schedule
  RigModel model = RigModel::tiny;
  std::optional<TableCache> cache{};  ///< of a SparseNN's tables
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::size_t copies_ahead = 0;
  std::string left_out{};  ///< an edge of PipelineRig::edges; empty: none

  [[nodiscard]] std::string name() const;
  /// The options of this case's pipeline.
  [[nodiscard]] PipelineOptions options(bool execute_all_batches) const {
    return {.copy = copy,
            .waits = waits,
            .execute_all_batches = execute_all_batches,
            .copies_ahead = copies_ahead,
            .lookup = lookup,
            .stale = stale,
            .savers = savers};
  }
};

/// Properties that differ between the kinds of pipelines.
struct ExpectedPipeline {
  std::size_t at_rest = 1;  ///< batches held between steps
  std::size_t at_peak = 1;  ///< batches held at any moment, at most
  std::string exchange_on = "main", update_on = "main";
};
[[nodiscard]] ExpectedPipeline expected_of(PipelineKind kind);

/// Every kind of pipeline x copy strategy x waits x policy. Further options of a kind are combined
/// pairwise with those and with each other.
[[nodiscard]] std::vector<PipelineCase> all_cases(RigModel model = RigModel::tiny);
[[nodiscard]] std::vector<PipelineCase> cases_of(PipelineKind kind,
                                                 RigModel model = RigModel::tiny);

/// A machine on which a small model trains. A checker observes all its work.
class PipelineRig {
 public:
  explicit PipelineRig(const PipelineCase& what = {});
  ~PipelineRig();

  [[nodiscard]] std::unique_ptr<TrainPipeline> make(bool execute_all_batches = true) {
    return make(what_, *model, execute_all_batches);
  }
  [[nodiscard]] std::unique_ptr<TrainPipeline> make(const PipelineCase& what, TrainModel& model,
                                                    bool execute_all_batches = true);

  /// Batch `number` of an endless sequence. Sizes go up and down, and every seventh batch is empty.
  [[nodiscard]] ModelInput load(std::size_t number);
  struct OnDevice {
    InputTensors input;
    SparseFeatures features;
  };
  /// Copies the batch and exchanges its features on main.
  [[nodiscard]] OnDevice upload(std::size_t number);
  /// Copies, exchanges and trains on main, then waits for main.
  void plain_step(std::size_t number);

  /// All trained parameters and the state of the optimizers. Waits for main.
  [[nodiscard]] std::vector<float> parameters();
  /// The races that the checker has found so far.
  [[nodiscard]] std::vector<std::string> races() const;
  /// All edges that order the program's work, including the one that is left out.
  [[nodiscard]] std::set<std::string> edges() const;
  /// Live blocks of device memory, without the model's own.
  [[nodiscard]] std::size_t live_blocks();

 private:
  const PipelineCase what_;

 public:
  VirtualMachine machine;
  VirtualDevice& device;
  CheckingObserver checking;

 private:
  const bool attached_ = (checking.attach(device), true);

 public:
  LeavingOutDevice program_device{device};  ///< the device that the program uses
  OrderedDevice ordered{program_device};
  DeviceSource source{program_device};
  PinnedSource pinned_source{program_device};
  CachingAllocator caching, caching_pinned;
  CheckedAllocator memory{caching, checking, device};
  CheckedAllocator pinned{caching_pinned, checking, device, CheckedMemory::pinned};
  DriverAllocator pool{ordered};
  TamperedAllocator batches, features{memory, "features"}, host_batches{pinned, "host batch"};
  PipelineStreams streams;
  ModelContext context{memory, streams.main};
  std::unique_ptr<TrainModel> model;
  LocalExchange exchange;

 private:
  [[nodiscard]] std::unique_ptr<TrainModel> make_model();
  [[nodiscard]] LocalExchange make_exchange();
  [[nodiscard]] std::size_t rows() const;

  const std::size_t blocks_of_model_;
};

/// Serves batches of a rig.
class RigSource final : public BatchSource {
 public:
  RigSource(PipelineRig& rig, std::vector<std::size_t> numbers)
      : rig_(rig), numbers_(std::move(numbers)) {}
  /// Batches `begin` to `end` - 1.
  RigSource(PipelineRig& rig, std::size_t begin, std::size_t end)
      : RigSource(rig, numbers(begin, end)) {}

  [[nodiscard]] static std::vector<std::size_t> numbers(std::size_t begin, std::size_t end);
  [[nodiscard]] std::size_t drawn() const noexcept { return next_; }

  std::function<void(std::size_t number)> before;  ///< called before a batch is loaded
  std::size_t asked = 0;                           ///< calls of `do_next`, the last one included

 private:
  std::optional<ModelInput> do_next() override {
    ++asked;
    if (next_ == numbers_.size()) return std::nullopt;
    if (before) before(numbers_[next_]);
    return rig_.load(numbers_[next_++]);
  }

  PipelineRig& rig_;
  const std::vector<std::size_t> numbers_;
  std::size_t next_ = 0;
};

/// Parameters after the plain loop trained on these batches.
[[nodiscard]] std::vector<float> plainly_trained(const std::vector<std::size_t>& numbers,
                                                 RigModel model = RigModel::tiny);
[[nodiscard]] std::vector<float> plainly_trained(std::size_t batches,
                                                 RigModel model = RigModel::tiny);
/// Parameters after the stale loop that semi_sync must equal, written by hand.
[[nodiscard]] std::vector<float> stalely_trained(std::size_t batches, const StaleOptions& options,
                                                 RigModel model = RigModel::tiny);

}  // namespace millrace::test
