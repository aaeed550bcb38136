#pragma once

#include <memory>
#include <vector>

#include "graph/graph.hpp"

/** The object that a cudaGraphExec_t points to: a copy of a graph, which can be launched. */
struct CUgraphExec_st {
  static constexpr std::uint32_t kMagic = 0x45584543;

  std::uint32_t magic = kMagic;
  unsigned long long flags = 0;
  std::shared_ptr<millrace::virtual_cuda::Graph> graph;
  millrace::virtual_cuda::OperationRef last;  ///< the end of its last launch
};

namespace millrace::virtual_cuda {

[[nodiscard]] inline bool valid(cudaGraphExec_t executable) noexcept {
  return executable != nullptr && executable->magic == CUgraphExec_st::kMagic;
}

/**
 * @param made   receives the executable graph; null if the graph cannot be instantiated
 * @param wrong  receives the node that is the reason; null if the reason is not a node
 */
[[nodiscard]] cudaGraphInstantiateResult instantiate(const Graph& graph, unsigned long long flags,
                                                     cudaGraphExec_t* made, cudaGraphNode_t* wrong);
/** @brief The node of `executable` that was copied from `node` of the original; null if none. */
[[nodiscard]] cudaGraphNode_t find_node(cudaGraphExec_t executable, const CUgraphNode_st* node);
cudaError_t launch(Lock& lock, cudaGraphExec_t executable, CUstream_st& stream);
/** @brief Takes over the parameters of `graph`, which must have the same nodes and edges. */
cudaGraphExecUpdateResult update(cudaGraphExec_t executable, const Graph& graph,
                                 cudaGraphNode_t* wrong);

}  // namespace millrace::virtual_cuda
