#include "train/ranks.hpp"

#include <fmt/format.h>

#include <string>

#include "cli/error.hpp"
#include "millrace/pipeline/collective/mpi_group.hpp"
#include "millrace/pipeline/collective/nccl_group.hpp"
#include "millrace/pipeline/collective/rendezvous.hpp"
#include "millrace/pipeline/fail_group_on_error.hpp"
#include "millrace/pipeline/schedule/training_ranks.hpp"

namespace millrace::cli {
namespace {

std::unique_ptr<Rendezvous> meet(const RankOptions& options) {
  if (!options.rendezvous) return Rendezvous::from_environment({});
  return Rendezvous::over_file(*options.rendezvous, options.process, *options.ranks, {});
}

}  // namespace

struct RankJob::Processes {
  explicit Processes(const RankOptions& options) {
    if (options.group == GroupKind::mpi) {
      int no_arguments = 0;
      char** none = nullptr;
      mpi = std::make_unique<MpiProcesses>(no_arguments, none);
    } else {
      rendezvous = meet(options);
    }
    if (!options.ranks || *options.ranks == size()) return;
    const unsigned started = size();
    give_up();
    throw UsageError{fmt::format("{} processes were started, not {}", started, *options.ranks),
                     "--ranks", fmt::format("--ranks {}, or leave it out", started)};
  }

  /**
   * Leaves MPI without MPI_Finalize, which would wait for the other ranks. Without a group, this
   * rank cannot tell them that it failed. They notice when its process ends.
   */
  void give_up() noexcept { static_cast<void>(mpi.release()); }

  [[nodiscard]] unsigned rank() const { return mpi ? mpi->rank() : rendezvous->rank(); }
  [[nodiscard]] unsigned size() const { return mpi ? mpi->size() : rendezvous->size(); }
  [[nodiscard]] std::unique_ptr<ProcessGroup> group(OrderedDevice& device) {
    if (mpi) return mpi->group(device);
    return NcclGroup::make(device, *rendezvous, {});
  }

  std::unique_ptr<MpiProcesses> mpi;
  std::unique_ptr<Rendezvous> rendezvous;
};

RankJob::RankJob(const RankOptions& options)
    : options_(options),
      processes_(options.group == GroupKind::mpi || options.group == GroupKind::nccl
                     ? std::make_unique<Processes>(options)
                     : nullptr) {}

RankJob::~RankJob() = default;

unsigned RankJob::rank() const noexcept { return processes_ ? processes_->rank() : 0; }

void RankJob::run(const TrainingOptions& training, const Body& body) {
  if (options_.group == GroupKind::threads) {
    run_training_ranks(training, options_.ranks.value_or(1),
                       [&](TrainingDevice& device, ProcessGroup& group) {
                         fail_group_on_error(group, [&] { body(device, &group); });
                       });
    return;
  }
  if (!processes_) {
    TrainingDevice device{training};
    body(device, nullptr);
    return;
  }
  const unsigned number = rank();
  bool has_group = false;
  try {
    TrainingDevice device{training};
    const std::unique_ptr<ProcessGroup> group = processes_->group(device.ordered());
    has_group = true;
    fail_group_on_error(*group, [&] { body(device, group.get()); });
    group->barrier();
  } catch (const UsageError& error) {
    if (!has_group) processes_->give_up();
    throw UsageError{fmt::format("rank {}: {}", number, error.what()), error.where(),
                     error.right()};
  } catch (const std::exception& error) {
    if (!has_group) processes_->give_up();
    throw UsageError{fmt::format("rank {}: {}", number, error.what())};
  }
}

}  // namespace millrace::cli
