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
 * @brief What a model runs in: its stream, where its memory comes from, and what its bytes are
 *        counted under. One thread at a time; outlives the model.
 *
 * With `cost_only` no operation has a kernel: a device accounts for time, memory and accesses, and
 * data mean nothing. A model then runs at full size on a virtual device without data.
 *
 * Everything that a model enqueues is an Operation with its views, cost, host and CUDA kernel.
 * Nothing synchronises with the host but what says so (reading the loss, say). All arithmetic is
 * FP32, with TF32 off, and its order is fixed: the same inputs on the same device give the same
 * bits.
 */
class ModelContext {
 public:
  ModelContext(Allocator& allocator, Stream& main, bool cost_only = false);
  /** @brief Waits for nothing. Handles of CUDA libraries go. */
  ~ModelContext();
  ModelContext(const ModelContext&) = delete;
  ModelContext& operator=(const ModelContext&) = delete;

  [[nodiscard]] Allocator& allocator() const noexcept { return allocator_; }
  [[nodiscard]] Device& device() const noexcept { return allocator_.device().device(); }
  [[nodiscard]] Stream& main() const noexcept { return main_; }
  [[nodiscard]] bool cost_only() const noexcept { return cost_only_; }
  /** @brief The GPU that CUDA kernels will run on, if they will. */
  [[nodiscard]] std::optional<int> gpu() const noexcept { return gpu_; }

  struct Tags {
    Tag tables, optimizer_state, parameters, activations, scratch;
  };
  [[nodiscard]] const Tags& tags() const noexcept { return tags_; }

  /** @brief Tagged as an activation, or as scratch. */
  template <typename T>
  [[nodiscard]] Array<T> activation(std::size_t size, StreamRef stream) const {
    return {allocator_, size, stream, tags_.activations};
  }
  template <typename T>
  [[nodiscard]] Array<T> scratch(std::size_t size, StreamRef stream) const {
    return {allocator_, size, stream, tags_.scratch};
  }

  /**
   * @brief The handle of a stream, made when first asked for; null where no CUDA kernel will run.
   * @throws std::runtime_error that says how to get cuBLAS, if it is not there
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
