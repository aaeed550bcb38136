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

/** @brief What has the rows that are streamed. All of it has to outlive the stream. */
struct StreamedTrainer {
  TrainingDevice& device;
  Trainer& trainer;
  const SparseNNConfig& config;
  const TrainPlan& plan;
  ProcessGroup* group = nullptr;  ///< nullptr: there is one rank
};

/** @brief Streams the changed rows of one rank, from where the stream of a checkpoint ended. */
class TrainStream {
 public:
  /**
   * @param from  `CheckpointHeader::stream` of the restored checkpoint; empty if there is none, or
   *              if it streamed nothing
   * @throws UsageError if the tables cannot be streamed with these options
   */
  TrainStream(const StreamingOptions& options, std::vector<std::shared_ptr<Sink>> sinks,
              const StreamedTrainer& trainer, const std::string& from);

  /** @brief Warns on stderr, once for each sink, if it is down or far behind. Call after each step.
   */
  void step_done();
  /** @brief For the status line: the sinks that are down or far behind, and for how long; "" if
   * none is. */
  [[nodiscard]] std::string status() const;
  /** @brief Delivers what is left, for at most `at_most`, and ends. Shows the sinks' state
   * meanwhile.
   */
  StreamingReport stop(Nanoseconds at_most);

  [[nodiscard]] std::uint64_t epoch() const noexcept { return streamer_->epoch(); }
  /** @brief The lineage for `CheckpointHeader::stream`, from which a later run goes on. */
  [[nodiscard]] std::string for_checkpoint() const;

 private:
  void look();

  const std::string placement_;
  const bool speaks_;  ///< only rank 0 prints
  StreamWatch watch_;
  std::chrono::steady_clock::time_point looked_;
  ThreadExecutor threads_;  ///< sinks use real time, also if the device's clock is virtual
  std::unique_ptr<RowStreamer> streamer_;
};

/** @brief What the sink lacks, in words; "" if it lacks nothing. */
[[nodiscard]] std::string what_it_lacks(const ShippingReport& sink);

/**
 * @brief Reads the lineage from the header of a checkpoint; empty if nothing was streamed.
 * @param where  the checkpoint's path, as the user gave it
 * @throws UsageError if the text is not a lineage
 */
[[nodiscard]] Lineage lineage_in(const std::string& stream, const std::string& where);

}  // namespace millrace::cli
