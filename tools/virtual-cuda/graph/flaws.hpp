#pragma once

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief Why a graph cannot be instantiated: a cycle, a body that CUDA does not allow, a handle
 *        without a node, or a conditional node in a graph that is instantiated already.
 * @param wrong  gets the node, where it is one
 */
[[nodiscard]] cudaGraphInstantiateResult flaw_of(const Graph& graph, cudaGraphNode_t* wrong);

}  // namespace millrace::virtual_cuda
