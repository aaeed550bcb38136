#pragma once

#include <functional>
#include <memory>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/**
 * @brief The ranks of a run that are in this process: the only rank, several ranks as threads, or
 *        one of several processes.
 *
 * The constructor initializes MPI or the rendezvous, and the destructor ends it.
 */
class RankJob {
 public:
  /** @throws UsageError if the number of processes differs from --ranks, or a process is missing */
  explicit RankJob(const RankOptions& options);
  ~RankJob();

  /** @brief This process's rank; 0 if all ranks are in this process. */
  [[nodiscard]] unsigned rank() const noexcept;

  using Body = std::function<void(TrainingDevice& device, ProcessGroup* group)>;
  /**
   * @brief Runs `body` with its device for each rank of this process.
   *
   * `group` is nullptr if there is only one rank and no group was requested. If `body` throws on
   * one rank, all other ranks (also in other processes) fail with that rank's message.
   * @throws the exception of a rank of this process; with several processes the message names the
   *         rank
   */
  void run(const TrainingOptions& training, const Body& body);

 private:
  struct Processes;

  const RankOptions options_;
  const std::unique_ptr<Processes> processes_;  ///< nullptr if ranks are threads, or for one rank
};

}  // namespace millrace::cli
