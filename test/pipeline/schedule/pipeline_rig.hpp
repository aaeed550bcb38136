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
  sparse_nn_plain,  ///< without: its lookups read no dense parameters
  sparse_nn_long,   ///< with, and more rows than a small cache holds
};

/// One cell of what a pipeline can be.
struct PipelineCase {
  PipelineKind kind = PipelineKind::sparse_dist;
  CopyMethod copy = CopyMethod::side_stream;
  Waits waits = Waits::coarse;
  std::string policy = "millrace";  ///< or "torch"
  std::uint64_t schedule = 0;       ///< 0: timed, else the seed of an adversarial one
  RigModel model = RigModel::tiny;
  std::optional<TableCache> cache{};  ///< of a SparseNN's tables
  LookupOptions lookup{};
  StaleOptions stale{};
  MemorySavers savers{};
  std::size_t copies_ahead = 0;
  std::string left_out{};  ///< one of PipelineRig::edges

  [[nodiscard]] std::string name() const;
  /// What a pipeline of this case is made with.
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

/// What tells the kinds of pipelines apart.
struct ExpectedPipeline {
  std::size_t at_rest = 1;  ///< batches held between steps
  std::size_t at_peak = 1;  ///< and at any moment
  std::string exchange_on = "main", update_on = "main";
};
[[nodiscard]] ExpectedPipeline expected_of(PipelineKind kind);

/// Every kind of pipeline x copy strategy x waits x policy; further options of a kind pairwise with
/// those and with each other.
[[nodiscard]] std::vector<PipelineCase> all_cases(RigModel model = RigModel::tiny);
[[nodiscard]] std::vector<PipelineCase> cases_of(PipelineKind kind,
                                                 RigModel model = RigModel::tiny);

/// A machine on which a small model trains, with a checker that sees all of it.
class PipelineRig {
 public:
  explicit PipelineRig(const PipelineCase& what = {});
  ~PipelineRig();

  [[nodiscard]] std::unique_ptr<TrainPipeline> make(bool execute_all_batches = true) {
    return make(what_, *model, execute_all_batches);
  }
  [[nodiscard]] std::unique_ptr<TrainPipeline> make(const PipelineCase& what, TrainModel& model,
                                                    bool execute_all_batches = true);

  /// Batch `number` of an endless sequence: sizes go up and down, every seventh is empty.
  [[nodiscard]] ModelInput load(std::size_t number);
  struct OnDevice {
    InputTensors input;
    SparseFeatures features;
  };
  /// Copies and exchanges on main.
  [[nodiscard]] OnDevice upload(std::size_t number);
  /// Copies, exchanges and trains on main, and waits.
  void plain_step(std::size_t number);

  /// All that was trained, and the state of optimizers. Waits for main.
  [[nodiscard]] std::vector<float> parameters();
  /// What the checker says so far.
  [[nodiscard]] std::vector<std::string> races() const;
  /// All that orders the program's work, what was left out included.
  [[nodiscard]] std::set<std::string> edges() const;
  /// Blocks of device memory that are live, beside the model's own.
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
  LeavingOutDevice program_device{device};  ///< of the program
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

/// Batches of a rig.
class RigSource final : public BatchSource {
 public:
  RigSource(PipelineRig& rig, std::vector<std::size_t> numbers)
      : rig_(rig), numbers_(std::move(numbers)) {}
  /// From `begin` to before `end`.
  RigSource(PipelineRig& rig, std::size_t begin, std::size_t end)
      : RigSource(rig, numbers(begin, end)) {}

  [[nodiscard]] static std::vector<std::size_t> numbers(std::size_t begin, std::size_t end);
  [[nodiscard]] std::size_t drawn() const noexcept { return next_; }

  std::function<void(std::size_t number)> before;  ///< a batch is loaded
  std::size_t asked = 0;                           ///< how often, the end included

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

/// Parameters after training on these batches with the plain loop.
[[nodiscard]] std::vector<float> plainly_trained(const std::vector<std::size_t>& numbers,
                                                 RigModel model = RigModel::tiny);
[[nodiscard]] std::vector<float> plainly_trained(std::size_t batches,
                                                 RigModel model = RigModel::tiny);
/// The same after the stale loop that semi_sync is to equal, written by hand.
[[nodiscard]] std::vector<float> stalely_trained(std::size_t batches, const StaleOptions& options,
                                                 RigModel model = RigModel::tiny);

}  // namespace millrace::test
