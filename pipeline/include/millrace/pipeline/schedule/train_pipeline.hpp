#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "millrace/pipeline/data/batch_source.hpp"
#include "millrace/pipeline/model/train_model.hpp"
#include "millrace/pipeline/schedule/pipeline_kind.hpp"
#include "millrace/pipeline/schedule/pipeline_options.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"

namespace millrace {

/** @brief The name of the main stream. */
inline constexpr const char* kMainStream = "main";

/**
 * @brief The streams of a pipeline.
 *
 *   main       the model's stream
 *   copy       copies batches to the device
 *   data_dist  exchanges features; base and sparse_dist_lite do not use it
 *   lookup     looks up and updates tables; only fused_sparse_dist
 *   prefetch   prefetches rows; only prefetch_sparse_dist
 *
 * Except with base, copy and data_dist have a higher priority than main.
 */
struct PipelineStreams {
  PipelineStreams(OrderedDevice& device, PipelineKind kind);

  /** @brief Adds a stream to `own`, for another kind of pipeline; "" adds none. */
  void add(std::string_view name);
  /**
   * @brief Returns the stream of `own` with this name. @throws std::invalid_argument for other
   * names
   */
  [[nodiscard]] Stream& named(std::string_view name);

  Stream main, copy, data_dist;
  std::vector<Stream> own;  ///< streams that only this kind of pipeline has
};

/** @brief The environment of a pipeline. All referenced objects outlive the pipeline. */
struct PipelineEnvironment {
  PipelineStreams& streams;
  /** Allocates device memory; for `driver_async` it must use the driver's pool. */
  Allocator& batches;
  TrainModel& model;
  SparseExchange& exchange;
  CopyObserver* observer = nullptr;
};

/**
 * @brief Trains a model on the batches of a source and works on later batches at the same time.
 *
 * Every kind except semi_sync gives the same bits as the plain loop (copy, exchange,
 * `train_plainly`, one batch after the other). semi_sync gives the bits of a loop that, from step
 * `StaleOptions::start_batch` on, looks up batch i+1 between forward and backward of batch i.
 *
 * The list below shows the host's order of calls in the step on batch i, as in TorchRec's
 * pipelines. D is main, M copy, DD data_dist, E the lookup's stream and P prefetch; "D waits M"
 * means that D waits for the work enqueued on M. Where no lookup or update is listed, forward
 * includes the lookup and backward includes the table update, on D.
 *
 *   base              next batch drawn; zero_gradients; D waits M; exchange(i) and forward on D;
 *                     the batch is released; backward; copy(i+1); optimizer.
 *   sparse_dist       zero_gradients; D waits DD; start(i+1) on DD, which waits M; copy(i+2);
 *                     DD arranges the features received for i, D waits DD; forward;
 *                     receive(i+1): the host blocks for sizes; backward; optimizer; release.
 *   sparse_dist_lite  zero_gradients; D waits M; exchange(i) and forward on D; backward;
 *                     copy(i+1); optimizer; release.
 *   fused_sparse_dist lookup(i) on E, after the update of i-1 there; zero_gradients; start(i+1);
 *                     copy(i+2); D waits E; forward; receive(i+1); backward; E waits D and updates
 *                     the tables while the optimizer runs on D; release. LookupPosition has other
 *                     places for the lookup.
 *   semi_sync         zero_gradients; start(i+2); forward, with the lookup made in the previous
 *                     step; release; copy(i+3); D waits for features i+1 and looks them up;
 *                     receive(i+2); backward; optimizer. Before `start_batch` the lookup of i+1
 *                     comes last.
 *   prefetch_sparse_dist  zero_gradients; D waits P; copy(i+2); receive(i+1); lookup and forward;
 *                     P waits for that lookup; DD arranges i+1; P waits DD and prefetches i+1;
 *                     backward; D waits P; update; optimizer; start(i+2); release.
 *
 * Between steps, sparse_dist, fused_sparse_dist and prefetch_sparse_dist hold 2 batches, semi_sync
 * holds 3, the others 1.
 *
 * With precise waits, each wait is for the marker after the work that is needed, and features are
 * arranged as soon as they are received. forward(i) then does not wait for start(i+1), and
 * therefore not for copy(i+1). Main marks the ends of forward, of backward and of the step.
 *
 * Not thread-safe. Only `receive` may block the host.
 */
class TrainPipeline {
 public:
  /**
   * @brief Makes a pipeline.
   * @param kind     must be the kind that `environment.streams` was made for
   * @param environment  see PipelineEnvironment
   * @throws std::invalid_argument if fused_sparse_dist cannot be exact: the model's lookups read
   *         dense parameters and `order_after_dense` is not set
   * @throws std::invalid_argument if `order_after_dense` is combined with
   *         LookupPosition::before_optimizer, or a stream that the pipeline needs is missing
   */
  [[nodiscard]] static std::unique_ptr<TrainPipeline> make(PipelineKind kind,
                                                           const PipelineEnvironment& environment,
                                                           const PipelineOptions& options = {});
  virtual ~TrainPipeline() = default;  ///< like `reset`
  TrainPipeline(const TrainPipeline&) = delete;
  TrainPipeline& operator=(const TrainPipeline&) = delete;

  /**
   * @brief Enqueues one training step on the oldest batch in flight, and draws later batches.
   *
   * A caller may pass another source in each call: batches are trained in the order in which they
   * were drawn.
   *
   * Errors: a step is done completely or not at all, unless the model throws.
   * - If the model throws in forward, backward or optimizer_step, the step and its batch are
   *   dropped (`TrainModel::abandon`).
   * - If the source, a copy or an exchange throws, no batch is lost. An error that the step itself
   *   depends on is thrown before forward; only the gradients were set to zero. An error for a
   *   later batch is thrown after the step is done; `steps()` then includes the step.
   * In each case the next call continues from there.
   * @return false if no batch is left; no step was done. Main is then ordered after all uses of
   *         the tables, as it is after `drain`, `reset` and `detach`
   * @throws std::logic_error while no model is attached
   */
  virtual bool progress(BatchSource& source) = 0;

  /** @brief Trains on the batches in flight and draws no others. Throws like `progress`. */
  virtual void drain() = 0;

  /** @brief Drops the batches in flight. Does not wait for the device. */
  virtual void reset() noexcept = 0;

  /**
   * @brief Detaches the model; call it between steps.
   *
   * Batches in flight stay in the pipeline. Those that were looked up already are looked up again
   * after `attach`.
   * @return the model, which the pipeline no longer uses
   */
  virtual TrainModel& detach() = 0;
  /**
   * @brief Continues with `model`.
   * @param model  reads the same features and has the same main stream as the previous model
   * @throws std::invalid_argument like `make`; no model is attached then
   */
  virtual void attach(TrainModel& model) = 0;

  [[nodiscard]] virtual std::size_t held() const noexcept = 0;  ///< batches in flight on the device
  [[nodiscard]] virtual std::size_t most_held() const noexcept = 0;  ///< maximum of `held` so far
  [[nodiscard]] virtual std::uint64_t steps() const noexcept = 0;    ///< steps done so far

  // The state that a checkpoint of semi_sync needs in addition to the model, and that a resumed run
  // restores. Call these between steps. Other kinds have no such state.
  /** @brief Sets the number of steps done, which is compared with `StaleOptions::start_batch`. */
  virtual void count_from(std::uint64_t steps) noexcept = 0;
  /** @brief The lookup of the oldest batch in flight, or nullptr if it was not looked up yet. */
  [[nodiscard]] virtual TableLookup* looked_up_ahead() noexcept = 0;
  /** @brief The dense gradients for the next optimizer_step, ordered on main; nullptr if none. */
  [[nodiscard]] virtual const Buffer* stashed_gradients() const noexcept { return nullptr; }
  /**
   * @brief Sets the dense gradients for the next optimizer_step.
   * @throws std::logic_error if this pipeline does not stash gradients
   */
  virtual void stash_gradients(Buffer gradients);

 protected:
  TrainPipeline() = default;
};

}  // namespace millrace
