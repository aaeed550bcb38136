#pragma once

#include <deque>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/**
 * @brief Parameters that are sharded over the ranks, as in fully sharded data parallelism. They are
 *        gathered layer by layer on a separate stream, ahead of their use on main.
 *
 * A gather waits until main has passed the layer that is `gathers_ahead` + 1 earlier. Without
 * Workload::gathered all functions do nothing and return empty buffers.
 */
class LayerGathers {
 public:
  /** @param layers  number of layers in a pass */
  LayerGathers(LoopWork& work, const Workload& workload, std::size_t layers);

  /** @brief Begins a pass over all layers. @param shards  the shards to gather, written by main */
  void begin(const Buffer& shards);
  /** @brief Makes main wait for the next layer's parameters. @return the parameters, valid until
   *         `used` */
  [[nodiscard]] const Buffer& next();
  /** @brief Frees the parameters after main's work so far, and gathers another layer. */
  void used(const Buffer& shards);

  /** @brief Allocates the gradients of a whole layer on main. */
  [[nodiscard]] Buffer gradient();
  /** @brief Reduces a layer's gradients, which main has written, into this rank's part. */
  void reduce(Buffer gradient, const Buffer& part);
  /** @brief Makes main wait for all reductions. */
  void join();

  /** @brief Frees the gathered parameters of an unfinished pass. */
  void abandon() noexcept;

 private:
  struct Gathered {
    Buffer parameters;
    Event ready;
  };

  void gather(const Buffer& shards);
  /** Makes the collective stream wait for main's work so far. */
  void follow_main();

  LoopWork& work_;
  const Workload& workload_;
  const std::size_t bytes_, layers_;
  const Tag tag_;
  std::size_t begun_ = 0;          ///< number of gathers in this pass
  std::deque<Gathered> gathered_;  ///< gathered, but not used yet
};

}  // namespace millrace::experiment
