#pragma once

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief The reason why a graph cannot be instantiated: a cycle, a body that CUDA does not allow, a
 *        handle without a node, or a conditional node in a graph that is already instantiated.
 * @param wrong  receives the node that is the reason; null if the reason is not a node
 */
[[nodiscard]] cudaGraphInstantiateResult flaw_of(const Graph& graph, cudaGraphNode_t* wrong);

}  // namespace millrace::virtual_cuda
