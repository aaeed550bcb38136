#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

/** @brief Outputs of cudaStreamGetCaptureInfo. All pointers except `status` may be null. */
struct CaptureInfo {
  cudaStreamCaptureStatus* status = nullptr;
  unsigned long long* id = nullptr;
  cudaGraph_t* graph = nullptr;
  const cudaGraphNode_t** nodes = nullptr;
  const cudaGraphEdgeData** edges = nullptr;
  std::size_t* count = nullptr;
};

// Versions of CUDA differ in the parameters of these functions.

cudaError_t capture_info(CUstream_st* stream, const CaptureInfo& out);
cudaError_t update_dependencies(CUstream_st* stream, cudaGraphNode_t* nodes, std::size_t count,
                                unsigned flags);

}  // namespace millrace::virtual_cuda
