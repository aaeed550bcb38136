#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

/** @brief Where cudaStreamGetCaptureInfo writes; every pointer but the first may be null. */
struct CaptureInfo {
  cudaStreamCaptureStatus* status = nullptr;
  unsigned long long* id = nullptr;
  cudaGraph_t* graph = nullptr;
  const cudaGraphNode_t** nodes = nullptr;
  const cudaGraphEdgeData** edges = nullptr;
  std::size_t* count = nullptr;
};

// The versions of CUDA give these functions different parameters.

cudaError_t capture_info(CUstream_st* stream, const CaptureInfo& out);
cudaError_t update_dependencies(CUstream_st* stream, cudaGraphNode_t* nodes, std::size_t count,
                                unsigned flags);

}  // namespace millrace::virtual_cuda
