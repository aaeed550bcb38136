#pragma once

/// @file
/// CUB's algorithms on Millrace's memory, through their environment. Needs CCCL 3.1 or later, where
/// DeviceReduce takes an environment; later versions have more such algorithms. With an earlier
/// CCCL this header declares nothing.

#include <cuda/version>

#if CCCL_VERSION >= 3001000

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include "millrace/interop/cuda_mr_adaptor.hpp"

namespace millrace {

/**
 * @brief The result of `environment`: a stream, and the memory for temporary storage.
 *
 * Answers CCCL's queries `cuda::get_stream` and `cuda::mr::get_memory_resource`, so it can be a
 * part of a larger `cuda::std::execution::env`.
 */
class CudaEnvironment {
 public:
  CudaEnvironment(DeviceMemory& memory, ::cuda::stream_ref stream) noexcept
      : resource_(memory), stream_(stream) {}

  [[nodiscard]] ::cuda::stream_ref query(const ::cuda::get_stream_t&) const noexcept {
    return stream_;
  }
  [[nodiscard]] CudaResource query(const ::cuda::mr::get_memory_resource_t&) const noexcept {
    return resource_;
  }

 private:
  CudaResource resource_;
  ::cuda::stream_ref stream_;
};

/**
 * @brief The environment of an algorithm of CUB. It runs on `stream`. Its temporary storage comes
 *        from `memory`, in the order of that stream.
 *
 *   cub::DeviceReduce::Sum(input, output, n, millrace::environment(memory, stream));
 *
 * One call replaces two calls and a buffer. `memory` outlives the call. The algorithm returns
 * cudaErrorMemoryAllocation if the memory cannot be allocated.
 */
[[nodiscard]] inline CudaEnvironment environment(DeviceMemory& memory,
                                                 ::cuda::stream_ref stream) noexcept {
  return {memory, stream};
}

}  // namespace millrace

#endif
