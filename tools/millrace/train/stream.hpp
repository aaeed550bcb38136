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

/** @brief Whose rows are streamed. All of it outlives the stream. */
struct StreamedTrainer {
  TrainingDevice& device;
  Trainer& trainer;
  const SparseNNConfig& config;
  const TrainPlan& plan;
  ProcessGroup* group = nullptr;  ///< null: there is one rank
};

/** @brief The stream of a run of training, of one rank: it goes on where a checkpoint's left off.
 */
class TrainStream {
 public:
  /**
   * @param from  `CheckpointHeader::stream` of the checkpoint that was restored; empty: none was,
   * or nothing was streamed
   * @throws UsageError if the tables can not be streamed so
   */
  TrainStream(const StreamingOptions& options, std::vector<std::shared_ptr<Sink>> sinks,
              const StreamedTrainer& trainer, const std::string& from);

  /** @brief Says on stderr what has become of sinks, once, while there is time to mend them. */
  void step_done();
  /** @brief For the status line: sinks that are down or far behind, and for how long; "": none. */
  [[nodiscard]] std::string status() const;
  /** @brief Delivers what is left, for so long at most, and ends. Meanwhile says how sinks are. */
  StreamingReport stop(Nanoseconds at_most);

  [[nodiscard]] std::uint64_t epoch() const noexcept { return streamer_->epoch(); }
  /** @brief What makes it possible to go on: which steps made the tables, and where those are. */
  [[nodiscard]] std::string for_checkpoint() const;

 private:
  void look();

  const std::string placement_;
  const bool speaks_;  ///< the first rank does
  StreamWatch watch_;
  std::chrono::steady_clock::time_point looked_;
  ThreadExecutor threads_;  ///< sinks live by the clock of the world, whatever the device's is
  std::unique_ptr<RowStreamer> streamer_;
};

/** @brief In words; "" if the sink lacks nothing. */
[[nodiscard]] std::string what_it_lacks(const ShippingReport& sink);

/** @brief The lineage in the header of a checkpoint; empty if nothing was streamed.
 *  @param where  what the user called the checkpoint
 *  @throws UsageError if it is none */
[[nodiscard]] Lineage lineage_in(const std::string& stream, const std::string& where);

}  // namespace millrace::cli
