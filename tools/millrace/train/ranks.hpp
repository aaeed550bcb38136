#pragma once

#include <functional>
#include <memory>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/**
 * @brief The ranks of a run that are in this process: the only one, several as threads, or one of
 *        several processes.
 *
 * MPI, or the rendezvous, is initialized by the constructor and ended by the destructor.
 */
class RankJob {
 public:
  /** @throws UsageError if there are not as many processes as --ranks says, or one is missing */
  explicit RankJob(const RankOptions& options);
  ~RankJob();

  /** @brief This process's rank; 0 if all ranks are in this process. */
  [[nodiscard]] unsigned rank() const noexcept;

  using Body = std::function<void(TrainingDevice& device, ProcessGroup* group)>;
  /**
   * @brief Runs `body` with its device for each rank of this process.
   *
   * `group` is nullptr if there is only one rank and no group was asked for. If `body` throws on
   * one rank, all other ranks, also those in other processes, fail with that rank's message.
   * @throws what a rank of this process threw; with several processes the message has the rank
   */
  void run(const TrainingOptions& training, const Body& body);

 private:
  struct Processes;

  const RankOptions options_;
  const std::unique_ptr<Processes> processes_;  ///< nullptr: ranks are threads, or there is one
};

}  // namespace millrace::cli
