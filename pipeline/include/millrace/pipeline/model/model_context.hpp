#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "millrace/device/stream.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/memory/buffer.hpp"

namespace millrace {

namespace model {
/** @brief A cuBLAS handle and its workspace, for one stream. */
struct BlasHandle;
}  // namespace model

/**
 * @brief The environment of a model: its main stream, its allocator, and the tags of its memory.
 * Not thread-safe; outlives the model.
 *
 * Everything that a model enqueues is an Operation with views, cost, a host kernel and a CUDA
 * kernel. Only functions that say so block the host (for instance to read the loss). All arithmetic
 * is FP32, with TF32 off, and has a fixed order: the same inputs on the same device give the same
 * bits.
 */
class ModelContext {
 public:
  /**
   * @param allocator  allocates the model's memory; outlives the context
   * @param main       the model's stream; outlives the context
   * @param cost_only  operations have no kernels: the device accounts for time, memory and
   *                   accesses, and the data has no meaning. A virtual device can then run a model
   *                   at full size.
   */
  ModelContext(Allocator& allocator, Stream& main, bool cost_only = false);
  /** @brief Destroys the handles of CUDA libraries. Does not wait. */
  ~ModelContext();
  ModelContext(const ModelContext&) = delete;
  ModelContext& operator=(const ModelContext&) = delete;

  [[nodiscard]] Allocator& allocator() const noexcept { return allocator_; }
  [[nodiscard]] Device& device() const noexcept { return allocator_.device().device(); }
  [[nodiscard]] Stream& main() const noexcept { return main_; }
  [[nodiscard]] bool cost_only() const noexcept { return cost_only_; }
  /** @brief Returns the GPU on which CUDA kernels run; std::nullopt if none run. */
  [[nodiscard]] std::optional<int> gpu() const noexcept { return gpu_; }

  /** @brief The tags under which a model's memory is counted. */
  struct Tags {
    Tag tables, optimizer_state, parameters, activations, scratch;
  };
  [[nodiscard]] const Tags& tags() const noexcept { return tags_; }

  /** @brief Allocates `size` objects with the tag of activations. */
  template <typename T>
  [[nodiscard]] Array<T> activation(std::size_t size, StreamRef stream) const {
    return {allocator_, size, stream, tags_.activations};
  }
  /** @brief Allocates `size` objects with the tag of scratch memory. */
  template <typename T>
  [[nodiscard]] Array<T> scratch(std::size_t size, StreamRef stream) const {
    return {allocator_, size, stream, tags_.scratch};
  }

  /**
   * @brief Returns the cuBLAS handle of a stream, made at the first call; nullptr if no CUDA
   * kernels run.
   * @throws std::runtime_error that says how to get cuBLAS, if it cannot be loaded
   */
  [[nodiscard]] const model::BlasHandle* blas(StreamRef stream);

 private:
  Allocator& allocator_;
  Stream& main_;
  const bool cost_only_;
  const std::optional<int> gpu_;
  Tags tags_;
  std::map<void*, std::unique_ptr<model::BlasHandle>> blas_;  ///< by stream handle
};

}  // namespace millrace
