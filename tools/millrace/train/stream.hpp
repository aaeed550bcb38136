#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/thread_executor.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"
#include "millrace/streamer/row_streamer.hpp"
#include "train/plan.hpp"
#include "train/stream_watch.hpp"

namespace millrace::cli {

/** @brief The owner of the streamed rows. All of it must outlive the stream. */
struct StreamedTrainer {
  TrainingDevice& device;
  Trainer& trainer;
  const SparseNNConfig& config;
  const TrainPlan& plan;
  ProcessGroup* group = nullptr;  ///< nullptr: the only rank
};

/** @brief Streams the changed rows of one rank, starting where the stream of a checkpoint ended. */
class TrainStream {
 public:
  /**
   * @param from  `CheckpointHeader::stream` of the restored checkpoint; empty without a checkpoint,
   *              or if its run streamed nothing
   * @throws UsageError if the tables cannot be streamed with these options
   */
  TrainStream(const StreamingOptions& options, std::vector<std::shared_ptr<Sink>> sinks,
              const StreamedTrainer& trainer, const std::string& from);

  /** @brief Call it after each step. It writes the due lines of `StreamWatch::news` to the log. */
  void step_done();
  /** @brief For the status line: the sinks that are down or far behind, and for how long; "" if
   *         none is. */
  [[nodiscard]] std::string status() const;
  /** @brief Delivers the remaining rows within `at_most` and ends the stream. It shows the state of
   *         the sinks meanwhile. */
  StreamingReport stop(Nanoseconds at_most);

  [[nodiscard]] std::uint64_t epoch() const noexcept { return streamer_->epoch(); }
  /** @brief The lineage for `CheckpointHeader::stream`. A later run continues from it. */
  [[nodiscard]] std::string for_checkpoint() const;

 private:
  void look();

  const std::string placement_;
  const bool speaks_;  ///< rank 0: it shows the status line, and logs sinks that go down
  StreamWatch watch_;
  std::chrono::steady_clock::time_point looked_;
  ThreadExecutor threads_;  ///< sinks use real time, even if the device's clock is virtual
  std::unique_ptr<RowStreamer> streamer_;
};

/** @brief Describes the rows that the sink lacks; "" if it lacks none. */
[[nodiscard]] std::string what_it_lacks(const ShippingReport& sink);

/**
 * @brief Reads the lineage from the header of a checkpoint. It is empty if the run streamed
 *        nothing.
 * @param where  the checkpoint's path, as the user gave it
 * @throws UsageError if the text is not a lineage
 */
[[nodiscard]] Lineage lineage_in(const std::string& stream, const std::string& where);

}  // namespace millrace::cli
