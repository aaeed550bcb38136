#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "millrace/pipeline/data/batch_source.hpp"
#include "millrace/pipeline/model/train_model.hpp"
#include "millrace/pipeline/schedule/pipeline_kind.hpp"
#include "millrace/pipeline/schedule/pipeline_options.hpp"
#include "millrace/pipeline/sharding/sparse_exchange.hpp"

namespace millrace {

/** @brief The name of the main stream. */
inline constexpr const char* kMainStream = "main";

/**
 * @brief The streams of a pipeline: main is the model's, copy brings batches, data-dist exchanges
 *        their features (not Base's and SparseDistLite's), lookup is FusedSparseDist's own,
 * prefetch PrefetchSparseDist's.
 *
 * Side streams of the SparseDist family run before main where both could, Base's do not.
 */
struct PipelineStreams {
  PipelineStreams(OrderedDevice& device, PipelineKind kind);

  Stream main, copy, data_dist;
  std::optional<Stream> lookup;    ///< fused_sparse_dist
  std::optional<Stream> prefetch;  ///< prefetch_sparse_dist
};

/** @brief What a pipeline works with. All of it outlives the pipeline. */
struct PipelineSetting {
  PipelineStreams& streams;
  Allocator& batches;  ///< of device memory; for `driver_async` one with the driver's pool
  TrainModel& model;
  SparseExchange& exchange;
  CopyObserver* observer = nullptr;
};

/**
 * @brief Trains a model on the batches of a source, with work on later batches under way.
 *
 * Each but semi_sync gives the bits of the plain loop (copy, exchange, `train_plainly`, one batch
 * after the other); semi_sync those of a loop that looks batch i+1 up between forward and backward
 * of batch i, from `StaleOptions::start_batch` on. With D main, M copy, DD data-dist and E the
 * lookup's stream, the order of a step on batch i is that of TorchRec's pipelines; where no lookup
 * is told, forward has it before, and backward the update behind it, on D:
 *
 *   base              next batch drawn; zero_gradients; D waits M; exchange(i) and forward on D;
 *                     the batch is released; backward; copy(i+1); optimizer.
 *   sparse_dist       zero_gradients; D waits DD; start(i+1) on DD, which waits M; copy(i+2);
 *                     DD arranges what the exchange of i brought, D waits DD; forward;
 *                     receive(i+1): the host blocks for sizes; backward; optimizer; release.
 *   sparse_dist_lite  zero_gradients; D waits M; exchange(i) and forward on D; backward;
 *                     copy(i+1); optimizer; release.
 *   fused_sparse_dist looks i up on E, behind the update of i-1 there; zero_gradients; start(i+1);
 *                     copy(i+2); D waits E; forward; receive(i+1); backward; E waits D and updates
 *                     the tables; optimizer, meanwhile; release. Other positions: LookupPosition.
 *   semi_sync         zero_gradients; start(i+2); forward, whose lookup is there; the batch is
 *                     released; copy(i+3); D waits for features i+1 and looks them up;
 *                     receive(i+2); backward; optimizer. Before `start_batch` the lookup is last.
 *
 *   prefetch_sparse_dist  with P the prefetch stream: zero_gradients; D waits P; copy(i+2);
 *                     receive(i+1); lookup and forward; P waits for that lookup, DD arranges i+1, P
 *                     waits DD and prefetches i+1; backward; D waits P; update; optimizer;
 *                     start(i+2); release.
 *
 * Between steps sparse_dist, fused_sparse_dist and prefetch_sparse_dist hold 2 batches, semi_sync
 * 3, the others 1. With
 * precise waits each of them is for the marker behind the work that is needed, and features are
 * arranged as soon as they are received, so that forward(i) does not wait for start(i+1) and so for
 * copy(i+1). Main marks the ends of forward, of backward and of the step.
 *
 * One thread at a time. Nothing waits for the device but `receive`.
 */
class TrainPipeline {
 public:
  /**
   * @throws std::invalid_argument if fused_sparse_dist can not be exact: for a model whose lookups
   *         read dense parameters, unless they are ordered after the dense optimizer, which a
   *         position before the optimizer can not be; or if there is no stream for its lookups, or
   *         for prefetches
   */
  [[nodiscard]] static std::unique_ptr<TrainPipeline> make(PipelineKind kind,
                                                           const PipelineSetting& setting,
                                                           const PipelineOptions& options = {});
  virtual ~TrainPipeline() = default;  ///< as `reset`
  TrainPipeline(const TrainPipeline&) = delete;
  TrainPipeline& operator=(const TrainPipeline&) = delete;

  /**
   * @brief Enqueues one step, on the oldest batch in flight, and draws later ones from `source`.
   *
   * Sources may be given in turn: batches are trained in the order in which they were drawn.
   *
   * A step is done as a whole or not at all, unless the model throws. What the model throws in
   * forward, backward or optimizer_step gives up the step and its batch (`TrainModel::abandon`).
   * What the source, a copy or an exchange throws loses no batch: before forward nothing of the
   * step has happened, but that gradients are zero; what goes wrong with later batches is thrown
   * when the step is done. `steps()` tells. The next call goes on from there.
   * @return false if there is nothing (more) to train on, and nothing was done; main is then
   *         ordered after all use of the tables, as it is after `drain`, `reset` and `detach`
   * @throws std::logic_error while no model is attached
   */
  virtual bool progress(BatchSource& source) = 0;

  /** @brief Trains on the batches in flight, and draws none. Throws as `progress`. */
  virtual void drain() = 0;

  /** @brief Gives up the batches in flight. Waits for nothing. */
  virtual void reset() noexcept = 0;

  /** @brief Between steps: the pipeline no longer uses the model. Batches in flight stay, and are
   *         looked up again where they had been. */
  virtual TrainModel& detach() = 0;
  /** @brief Goes on with this model, which reads the same features and has the same main stream.
   *  @throws std::invalid_argument as `make`; none is attached then */
  virtual void attach(TrainModel& model) = 0;

  [[nodiscard]] virtual std::size_t held() const noexcept = 0;  ///< batches in flight on the device
  [[nodiscard]] virtual std::size_t most_held() const noexcept = 0;  ///< at any moment so far
  [[nodiscard]] virtual std::uint64_t steps() const noexcept = 0;    ///< done so far

  // What a checkpoint of semi_sync needs beside the model, and how a run goes on from one. Between
  // steps; others have none of it.
  /** @brief Steps are counted on from here: those of `StaleOptions::start_batch`. */
  virtual void count_from(std::uint64_t steps) noexcept = 0;
  /** @brief The lookup of the oldest batch in flight, if it was looked up ahead; else nullptr. */
  [[nodiscard]] virtual TableLookup* looked_up_ahead() noexcept = 0;
  /** @brief The dense gradients that the next optimizer_step takes, of main; nullptr: none. */
  [[nodiscard]] virtual const Buffer* stashed_gradients() const noexcept { return nullptr; }
  /** @brief Puts dense gradients in their place. @throws std::logic_error if it stashes none */
  virtual void stash_gradients(Buffer gradients);

 protected:
  TrainPipeline() = default;
};

}  // namespace millrace
