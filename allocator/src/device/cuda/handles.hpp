#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "device/cuda/error.hpp"

namespace millrace::cuda {

struct StreamDestroyer {
  void operator()(cudaStream_t stream) const noexcept { quietly(cudaStreamDestroy(stream)); }
};
struct EventDestroyer {
  void operator()(cudaEvent_t event) const noexcept { quietly(cudaEventDestroy(event)); }
};
struct PoolDestroyer {
  void operator()(cudaMemPool_t pool) const noexcept { quietly(cudaMemPoolDestroy(pool)); }
};

using UniqueStream = std::unique_ptr<CUstream_st, StreamDestroyer>;
using UniqueEvent = std::unique_ptr<CUevent_st, EventDestroyer>;
using UniquePool = std::unique_ptr<CUmemPoolHandle_st, PoolDestroyer>;

[[nodiscard]] inline UniqueStream make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, flags), "cudaStreamCreateWithFlags", flags);
  return UniqueStream{stream};
}

[[nodiscard]] inline UniqueEvent make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags", flags);
  return UniqueEvent{event};
}

}  // namespace millrace::cuda
