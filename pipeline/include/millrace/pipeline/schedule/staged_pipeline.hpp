#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"

namespace millrace {

/** @brief A batch for stages: movable, and able to record the streams that use it. */
template <typename Batch>
concept StagedBatch = std::movable<Batch> && requires(Batch& batch, StreamRef stream) {
  { batch.record_use(stream) } -> std::same_as<void>;
};

/** @brief One stage: work on a batch that is enqueued on one stream. Stages may share a stream. */
template <StagedBatch Batch>
struct Stage {
  std::string name;  ///< used in errors
  Stream& stream;
  /// Enqueues the work on `stream`. If it throws it must leave the batch unchanged: it is called
  /// again for the same batch.
  std::function<void(Batch& batch)> run;
};

/**
 * @brief Moves batches through user-defined stages: one stage per step for each batch.
 *
 *   StagedPipeline<Rows> pipeline{{{"copy", copy, to_device}, {"sort", side, sort}}, main};
 *   while (std::optional<Rows> rows = pipeline.progress(next)) {
 *     ... enqueue work on main ...
 *   }
 *
 * With N stages the pipeline holds N batches between steps; the oldest has passed all stages. The
 * caller holds one more. The stream of a stage waits for the marker after the batch's previous
 * stage, and its use of the batch is recorded. In a step, stages are called for the newest batch
 * first. Each stage sees the batches in the order in which they were drawn, so a stage may contain
 * collectives.
 *
 * Not thread-safe. The streams outlive the pipeline. No call waits for the device.
 */
template <StagedBatch Batch>
class StagedPipeline {
 public:
  /** Returns the next batch, or std::nullopt if it has none at the moment. */
  using Source = std::function<std::optional<Batch>()>;

  /**
   * @param stages   in the order in which a batch passes them
   * @param compute  the stream on which the caller uses batches
   * @throws std::invalid_argument if `stages` is empty
   */
  StagedPipeline(std::vector<Stage<Batch>> stages, Stream& compute)
      : stages_(std::move(stages)), compute_(compute) {
    if (stages_.empty()) throw std::invalid_argument{"a staged pipeline has at least one stage"};
  }

  /**
   * @brief Returns the next batch that has passed all stages; `compute` may use it from now on.
   *
   * An exception of a stage or of the source is thrown immediately if this batch needs that work.
   * If only later batches need it, the next call throws it first and does nothing else. No batch is
   * lost.
   * @return std::nullopt when the source has no more batches and all batches were returned
   */
  [[nodiscard]] std::optional<Batch> progress(const Source& source) {
    if (failed_ahead_) std::rethrow_exception(std::exchange(failed_ahead_, nullptr));
    fill(source);
    if (held_.empty() && flushed_) {
      std::exchange(flushed_, nullptr)();
      fill(source);
    }
    if (held_.empty()) return std::nullopt;

    hand(held_.front(), compute_);
    InFlight out = std::move(held_.front());
    held_.pop_front();
    try {
      advance(source);
    } catch (...) {
      failed_ahead_ = std::current_exception();
    }
    return std::move(out.batch);
  }

  /**
   * @brief Stops drawing batches until all batches in flight were returned.
   *
   * The call of `progress` after the last of them calls `flushed` and then draws batches again.
   */
  void flush(std::function<void()> flushed) { flushed_ = std::move(flushed); }

  /** @brief Drops the batches in flight. */
  void reset() noexcept {
    held_.clear();
    failed_ahead_ = nullptr;
    flushed_ = nullptr;
  }

  /** @brief Number of batches in flight. */
  [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }

 private:
  /** @brief A batch that was drawn and not returned yet. */
  struct InFlight {
    Batch batch;
    std::size_t done = 0, wanted = 0;  ///< numbers of stages
    bool run = false;                  ///< stage `done` has run, but its end is not yet recorded
    Stream* on = nullptr;              ///< stream of the last stage that is done
    Event ready;                       ///< recorded after that stage
  };

  void fill(const Source& source) {
    run_stages();
    while (held_.empty() || held_.front().done < stages_.size()) {
      advance(source);
      if (held_.empty()) return;
    }
  }

  /** Moves each batch one stage further. First completes the work of an earlier call that threw. */
  void advance(const Source& source) {
    run_stages();
    if (!flushed_) {
      if (std::optional<Batch> drawn = source()) held_.push_back({std::move(*drawn)});
    }
    for (InFlight& flight : held_) {
      flight.wanted = std::min(flight.done + 1, stages_.size());
    }
    run_stages();
  }

  void run_stages() {
    for (auto flight = held_.rbegin(); flight != held_.rend(); ++flight) {
      if (flight->done == flight->wanted) continue;
      Stage<Batch>& stage = stages_[flight->done];
      if (!flight->run) {
        hand(*flight, stage.stream);
        stage.run(flight->batch);
        flight->run = true;
      }
      stage.stream.device().record(flight->ready, stage.stream);
      flight->run = false;
      flight->on = &stage.stream;
      ++flight->done;
    }
  }

  void hand(InFlight& flight, Stream& user) {
    if (flight.on == nullptr || flight.on->id() == user.id()) return;
    user.wait(flight.ready);
    flight.batch.record_use(user);
  }

  std::vector<Stage<Batch>> stages_;
  Stream& compute_;
  std::deque<InFlight> held_;
  std::function<void()> flushed_;
  std::exception_ptr failed_ahead_;
};

}  // namespace millrace
