#pragma once

#include <vector>

#include "loop/loop_work.hpp"

namespace millrace::experiment {

/** @brief The activations of a layer that forward keeps for backward. */
struct KeptLayer {
  Buffer output, mask;
};

/**
 * @brief Kept activations that are in pinned host memory between forward and backward.
 *
 * Both copies run on a separate stream. That stream owns the memory of the copy back, and main uses
 * it with record_stream, as in PyTorch programs. A copy back waits until main has reached the layer
 * that is `offloads_ahead` + 1 later. Without Workload::offload_every all functions do nothing.
 */
class LayerOffloads {
 public:
  /** @param layers  number of layers in a pass */
  LayerOffloads(LoopWork& work, const Workload& workload, std::size_t layers);

  /** @brief Whether the layer is offloaded if forward keeps it. */
  [[nodiscard]] bool offloads(std::size_t layer) const noexcept {
    const std::size_t every = workload_.offload_every;
    return every != 0 && (layer + 1) % every == 0 && layer + 1 < layers_.size();
  }

  /** @brief Copies the layer to the host after main's work so far. The caller frees the layer's
   *         buffers when main no longer needs them. */
  void store(std::size_t layer, KeptLayer& kept);
  /** @brief Copies back the layers that main needs soon. Call it before main uses `layer`. */
  void fetch_for(std::size_t layer);
  /** @brief Makes main wait for the layer, and returns it. The buffers are empty if the layer is
   *         not offloaded or was already taken. */
  [[nodiscard]] KeptLayer take(std::size_t layer);

  /** @brief Frees the stored layers of an unfinished pass. */
  void abandon() noexcept;

 private:
  struct Offloaded {
    Buffer host_output, host_mask;
    KeptLayer back;
    Event is_back;
  };

  void fetch(Offloaded& layer);
  /** Makes the offload stream wait for main's work so far. */
  void follow_main();
  void copy(const Buffer& to, const Buffer& from, CopyKind kind);

  LoopWork& work_;
  const Workload& workload_;
  const Tag host_tag_, tag_;
  std::vector<Offloaded> layers_;
};

}  // namespace millrace::experiment
