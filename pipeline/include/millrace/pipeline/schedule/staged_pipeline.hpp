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

/** @brief What stages work on: it can be moved, and knows who uses its memory. */
template <typename Batch>
concept StagedBatch = std::movable<Batch> && requires(Batch& batch, StreamRef stream) {
  { batch.record_use(stream) } -> std::same_as<void>;
};

/** @brief One stage: work on a batch, enqueued on a stream of its own or shared with others. */
template <StagedBatch Batch>
struct Stage {
  std::string name;  ///< for errors
  Stream& stream;
  /** Enqueues on `stream`. What it throws leaves the batch as it was: it is called again. */
  std::function<void(Batch& batch)> run;
};

/**
 * @brief Brings batches through stages of the user's, each batch one stage further a step.
 *
 *   StagedPipeline<Rows> pipeline{{{"copy", copy, to_device}, {"sort", side, sort}}, main};
 *   while (std::optional<Rows> rows = pipeline.progress(next)) {
 *     ... enqueue work on main ...
 *   }
 *
 * With N stages, N batches are held between steps, the oldest of them through all stages, and one
 * more is the caller's. A stage's stream waits for the stage before of the same batch, precisely,
 * and its use is recorded. Stages are called for the newest batch first; each sees the batches in
 * the order in which they were drawn, so stages may hold collectives.
 *
 * One thread at a time. Streams outlive the pipeline. Nothing waits for the device.
 */
template <StagedBatch Batch>
class StagedPipeline {
 public:
  using Source = std::function<std::optional<Batch>()>;  ///< nothing: no more, for now

  /** @param compute  the stream on which the caller uses batches
   *  @throws std::invalid_argument without stages */
  StagedPipeline(std::vector<Stage<Batch>> stages, Stream& compute)
      : stages_(std::move(stages)), compute_(compute) {
    if (stages_.empty()) throw std::invalid_argument{"a staged pipeline has at least one stage"};
  }

  /**
   * @brief The next batch, through all stages: `compute` may use it from now on.
   *
   * What a stage or the source throws on behalf of this batch is thrown here, and what they throw
   * for later ones at the next call, before anything is done. No batch is lost.
   * @return nothing when the source has no more and all batches were given out
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
   * @brief No batch is drawn until those in flight were given out; the call of `progress` behind
   *        the last of them calls `flushed`, and goes on.
   */
  void flush(std::function<void()> flushed) { flushed_ = std::move(flushed); }

  /** @brief Gives up the batches in flight. */
  void reset() noexcept {
    held_.clear();
    failed_ahead_ = nullptr;
    flushed_ = nullptr;
  }

  [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }

 private:
  struct InFlight {
    Batch batch;
    std::size_t done = 0, wanted = 0;  ///< stages
    bool run = false;                  ///< the next one is, and its end not yet recorded
    Stream* on = nullptr;              ///< of the last one
    Event ready;                       ///< behind it
  };

  void fill(const Source& source) {
    run_stages();
    while (held_.empty() || held_.front().done < stages_.size()) {
      advance(source);
      if (held_.empty()) return;
    }
  }

  /** One stage further, each; what an earlier call left undone comes first. */
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
