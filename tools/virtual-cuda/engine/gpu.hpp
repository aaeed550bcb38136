#pragma once

#include <atomic>
#include <set>
#include <utility>
#include <vector>

#include "abi/cuda_runtime_api.h"
#include "engine/context.hpp"
#include "engine/stream.hpp"
#include "millrace/device/profile.hpp"

namespace millrace::virtual_cuda {

/** @brief A virtual GPU, with the state of its primary context. */
struct Gpu {
  unsigned ordinal = 0;
  DeviceProfile profile;
  CUctx_st primary;
  unsigned retained = 0;          ///< how often the program retained the primary context
  std::atomic<bool> used{false};  ///< the runtime used the GPU: its primary context is active
  unsigned flags = 0;             ///< flags of the primary context
  CUstream_st legacy;
  std::vector<CUstream_st*> streams;  ///< live streams, including per-thread ones
  /// Last operations of destroyed streams, each with the stream's `blocking()`.
  std::vector<std::pair<OperationRef, bool>> orphans;
  cudaMemPool_t default_pool = nullptr;
  cudaMemPool_t current_pool = nullptr;
  std::vector<cudaMemPool_t> pools;
  std::atomic<bool> excess{false};  ///< a pool may hold more than its release threshold
  std::set<unsigned> peers;         ///< GPUs whose memory this one's work may use
  std::size_t limits[7] = {1024, std::size_t{1} << 20, std::size_t{8} << 20, 2, 2048, 128, 0};

  [[nodiscard]] cudaDeviceProp properties() const;
  [[nodiscard]] cudaError_t attribute(cudaDeviceAttr attribute, int& value) const;
  [[nodiscard]] int major() const noexcept;
};

}  // namespace millrace::virtual_cuda
