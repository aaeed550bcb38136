#pragma once

#include <cstdint>
#include <memory>

#include "millrace/pipeline/model/model_context.hpp"

namespace millrace::model {

struct BlasHandle {
  void* handle = nullptr;  ///< a cublasHandle_t
  int gpu = 0;
  std::uint64_t stream_id = 0;  ///< the driver's id of the handle's stream
  Buffer workspace;

  BlasHandle() = default;
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;

  [[nodiscard]] View view() const {
    return {workspace.data(), workspace.size(), Access::read_write};
  }
};

/** @brief The stream on which CUDA kernels are enqueued, and its cuBLAS handle. */
struct Queue {
  void* stream = nullptr;  ///< a cudaStream_t
  const BlasHandle* blas = nullptr;
};

}  // namespace millrace::model
