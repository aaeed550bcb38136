#pragma once

#include <deque>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/**
 * @brief Parameters that are sharded over the ranks: gathered layer by layer on a stream of their
 *        own, ahead of their use on main, as fully sharded data parallelism does.
 *
 * A gather waits until main has passed the layer that is `gathers_ahead` + 1 before it. Without
 * Workload::gathered all functions do nothing, and buffers are empty.
 */
class LayerGathers {
 public:
  /** @param layers  of a pass */
  LayerGathers(LoopWork& work, const Workload& workload, std::size_t layers);

  /** @brief Begins a pass over all layers. @param shards  what is gathered; main has written it */
  void begin(const Buffer& shards);
  /** @brief Makes main wait for the next layer's parameters. @return them, until `used` */
  [[nodiscard]] const Buffer& next();
  /** @brief Frees the parameters after the work that main has by now, and gathers a further layer.
   */
  void used(const Buffer& shards);

  /** @brief Memory of main for the gradients of a whole layer. */
  [[nodiscard]] Buffer gradient();
  /** @brief Reduces the gradients of a layer, which main has written, into this rank's part. */
  void reduce(Buffer gradient, const Buffer& part);
  /** @brief Makes main wait for all reductions. */
  void join();

  /** @brief Frees what an unfinished pass has gathered. */
  void abandon() noexcept;

 private:
  struct Gathered {
    Buffer parameters;
    Event ready;
  };

  void gather(const Buffer& shards);
  /** Makes the collective stream wait for the work that main has by now. */
  void follow_main();

  LoopWork& work_;
  const Workload& workload_;
  const std::size_t bytes_, layers_;
  const Tag tag_;
  std::size_t begun_ = 0;          ///< gathers of this pass
  std::deque<Gathered> gathered_;  ///< and not used yet
};

}  // namespace millrace::experiment
