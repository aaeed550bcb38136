#pragma once

#include <vector>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/** @brief What forward keeps of a layer for backward. */
struct KeptLayer {
  Buffer output, mask;
};

/**
 * @brief Kept activations that are in pinned host memory between forward and backward.
 *
 * Both copies are on a stream of their own. The memory of what is copied back belongs to that
 * stream, and main uses it, as in programs for PyTorch. A copy back waits until main has reached
 * the layer that is `offloads_ahead` + 1 after it. Without Workload::offload_every all functions do
 * nothing.
 */
class LayerOffloads {
 public:
  /** @param layers  of a pass */
  LayerOffloads(LoopWork& work, const Workload& workload, std::size_t layers);

  /** @brief Whether the layer is offloaded, if forward keeps it. */
  [[nodiscard]] bool offloads(std::size_t layer) const noexcept {
    const std::size_t every = workload_.offload_every;
    return every != 0 && (layer + 1) % every == 0 && layer + 1 < layers_.size();
  }

  /** @brief Copies the layer to the host, after the work that main has by now. The caller frees its
   *         buffers when main needs them no more. */
  void store(std::size_t layer, KeptLayer& kept);
  /** @brief Copies back what main needs soon, when it is about to use `layer` and those before. */
  void fetch_for(std::size_t layer);
  /** @brief Makes main wait for the layer, and hands it over; empty buffers if it is not offloaded,
   *         or was handed over. */
  [[nodiscard]] KeptLayer take(std::size_t layer);

  /** @brief Frees what an unfinished pass has stored. */
  void abandon() noexcept;

 private:
  struct Offloaded {
    Buffer host_output, host_mask;
    KeptLayer back;
    Event is_back;
  };

  void fetch(Offloaded& layer);
  /** Makes the offload stream wait for the work that main has by now. */
  void follow_main();
  void copy(const Buffer& to, const Buffer& from, CopyKind kind);

  LoopWork& work_;
  const Workload& workload_;
  const Tag host_tag_, tag_;
  std::vector<Offloaded> layers_;
};

}  // namespace millrace::experiment
