#pragma once

#include <deque>
#include <exception>
#include <optional>

#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace {

/** @brief A batch on the device, and the progress of its sparse features. */
struct BatchInFlight {
  DeviceModelInput input;
  bool released = false;                      ///< the input was released
  std::unique_ptr<FeatureExchange> exchange;  ///< from its start until the features are arranged
  bool received = false;
  std::optional<SparseFeatures> features;  ///< from the arrangement until forward
  Event arranged;                          ///< recorded with precise waits, if not on main
  bool prefetched = false;
  Event rows_near;                      ///< recorded after the prefetch, with precise waits
  std::unique_ptr<TableLookup> lookup;  ///< from the prefetch or the lookup until the update
  bool is_looked_up = false;
  Event looked_up;  ///< recorded with precise waits, if not on main
};

/**
 * @brief The common part of all pipelines: the batches in flight, and the handling of errors. Each
 * batch passes each stage once, even if a stage is requested several times.
 */
class PipelineCore : public TrainPipeline {
 public:
  ~PipelineCore() override { reset(); }

  bool progress(BatchSource& source) final { return advance(&source); }
  void drain() final;
  void reset() noexcept final;
  TrainModel& detach() final;
  void attach(TrainModel& model) final;

  [[nodiscard]] std::size_t held() const noexcept final { return held_.size(); }
  [[nodiscard]] std::size_t most_held() const noexcept final { return most_held_; }
  [[nodiscard]] std::uint64_t steps() const noexcept final { return steps_; }
  void count_from(std::uint64_t steps) noexcept final { steps_ = steps; }
  TableLookup* looked_up_ahead() noexcept final {
    return held_.empty() || !held_.front().is_looked_up ? nullptr : held_.front().lookup.get();
  }

 protected:
  /** @brief The number of batches that a pipeline holds, without PipelineOptions::copies_ahead. */
  struct Depth {
    std::size_t between_steps = 1, most = 1;
  };

  /**
   * @param exchange_on  the stream of the exchange
   */
  PipelineCore(const PipelineEnvironment& environment, const PipelineOptions& options, Depth depth,
               Stream& exchange_on);

  /** @brief Brings the pipeline to its state between steps, as far as batches exist. */
  virtual void fill() = 0;
  virtual void step(BatchInFlight& current) = 0;
  /** @throws std::invalid_argument if the pipeline cannot train this model */
  virtual void check(const TrainModel&) const {}
  /** @brief Called when another model than the previous one was attached. */
  virtual void model_changed() {}

  [[nodiscard]] bool coarse() const noexcept { return options_.waits == Waits::coarse; }
  [[nodiscard]] Stream& main() const noexcept { return environment_.streams.main; }
  [[nodiscard]] TrainModel& model() const noexcept { return *model_; }
  [[nodiscard]] BatchInFlight* oldest() { return held_.empty() ? nullptr : &held_.front(); }
  [[nodiscard]] BatchInFlight* second() { return in_flight(1); }
  /** @brief The batch `after_oldest` places after the oldest; nullptr if there is none. */
  [[nodiscard]] BatchInFlight* in_flight(std::size_t after_oldest) {
    return after_oldest < held_.size() ? &held_[after_oldest] : nullptr;
  }

  void draw();  ///< draws the next batch of the source, unless one is drawn already
  void copy_next();
  void start(BatchInFlight& flight);
  void receive(BatchInFlight& flight);
  void arrange(BatchInFlight& flight);
  /**
   * @brief Starts and receives the exchange. With precise waits it also arranges the features at
   * once, so that the marker after them does not follow the exchange of the next batch.
   */
  void finish_exchange(BatchInFlight& flight);
  /**
   * @brief Copies a batch if none is in flight, and finishes the exchange of the oldest one.
   * @return false if the source has no batch
   */
  bool finish_oldest_exchange();
  /**
   * @brief The state between steps: the exchange of the oldest batch is finished, one more is
   * copied.
   */
  void fill_two();
  /** @brief Arranges the features. `user` waits for them, and its use is recorded. */
  void hand_features_to(BatchInFlight& flight, Stream& user);
  /**
   * @brief Lets main use the input. With coarse waits, main already waits for the exchange's
   * stream.
   */
  void take_input(BatchInFlight& current);

  /**
   * @brief Prefetches on a stream that waits for the features, after all earlier uses of the
   * tables.
   */
  void prefetch(BatchInFlight& flight, Stream& stream);
  /**
   * @brief Looks up on a stream that waits for the features, after all earlier uses of the tables.
   */
  void look_up(BatchInFlight& flight, Stream& stream);
  void forward(BatchInFlight& current);
  /** @brief Enqueues the dense backward on main, and the update of the tables on `stream`, which
   *         waits for it. */
  void backward_and_update(BatchInFlight& current, Stream& stream);
  void release_input(BatchInFlight& current);

  /**
   * @brief Call before `stream` uses the tables: orders it after all uses that are enqueued so far.
   */
  void order_tables(Stream& stream);

  /**
   * @brief Runs work that all ranks do in the same order, or that is part of such a step.
   *
   * If it throws, this notifies the other ranks that this rank left its part out, so that they do
   * not pair their next call with a wrong one; then it rethrows.
   */
  template <typename Work>
  void notify_ranks_on_error(Work&& work) {
    try {
      work();
    } catch (const std::exception& error) {
      environment_.exchange.left_out(error);
      throw;
    }
  }

  /**
   * @brief Runs work for later batches, whose errors must not affect the current step.
   *
   * If it throws, `progress` throws that error at the end of the step. Until then other deferred
   * work is left out.
   */
  template <typename Work>
  void defer_errors(Work&& work) {
    if (deferred_error_) return;
    try {
      notify_ranks_on_error(work);
    } catch (...) {
      deferred_error_ = std::current_exception();
    }
  }

  /**
   * @brief Runs the model's part of a step, from forward on. If it throws, the model abandons the
   * step, the batch is dropped, and the error is rethrown.
   */
  template <typename Work>
  void abandon_step_on_error(Work&& work) {
    try {
      notify_ranks_on_error(work);
    } catch (...) {
      model_->abandon();
      held_.pop_front();
      throw;
    }
  }

 private:
  bool advance(BatchSource* source);
  bool step_once();
  void copy_ahead();
  [[nodiscard]] std::size_t on_device() const;

  const PipelineEnvironment environment_;
  const PipelineOptions options_;
  const Depth depth_;  ///< including `copies_ahead`
  Stream& exchange_on_;
  TrainModel* model_;
  TrainModel* last_model_;
  Stream* tables_on_;              ///< stream of the last lookup or update of the tables
  BatchSource* source_ = nullptr;  ///< set during a call
  std::unique_ptr<CopyStrategy> strategy_;
  std::optional<ModelInput> drawn_;  ///< drawn, but not copied yet
  std::deque<BatchInFlight> held_;
  std::exception_ptr deferred_error_;
  std::size_t most_held_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace millrace
