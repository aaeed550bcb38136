#pragma once

#include <functional>
#include <memory>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"
#include "train/options.hpp"

namespace millrace::cli {

/**
 * @brief The ranks of a run, as far as they are this process's: one, several as threads, or one of
 *        several processes. From when it is made until it goes MPI is there, or the rendezvous.
 */
class RankJob {
 public:
  /** @throws UsageError if the processes are not as many as --ranks says, or do not meet */
  explicit RankJob(const RankOptions& options);
  ~RankJob();

  /** @brief Of this process; 0 where all ranks are here. */
  [[nodiscard]] unsigned rank() const noexcept;

  using Body = std::function<void(TrainingDevice& device, ProcessGroup* group)>;
  /**
   * @brief Runs `body` for each rank that is here, with its device; `group` is null if there is but
   *        one and no group was asked for. What one throws the others are told, wherever they are.
   * @throws what a rank of this process threw; of several processes it says which rank this is
   */
  void run(const TrainingOptions& training, const Body& body);

 private:
  struct Processes;

  const RankOptions options_;
  const std::unique_ptr<Processes> processes_;  ///< null: ranks are threads, or there is one
};

}  // namespace millrace::cli
