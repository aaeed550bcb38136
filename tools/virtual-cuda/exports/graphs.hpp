#pragma once

#include "exports/entry.hpp"
#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

// Versions of CUDA differ in the parameters of these functions. Edges have no data here, so arrays
// for it are filled with zeros.

cudaError_t graph_edges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                        cudaGraphEdgeData* data, std::size_t* count);
cudaError_t node_dependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
                              std::size_t* count);
cudaError_t node_dependents(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
                            std::size_t* count);
cudaError_t add_edges(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                      std::size_t count);
cudaError_t remove_edges(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                         std::size_t count);

/**
 * @brief Adds a node.
 * @param error  the error of making the work; with an error no node is added
 */
cudaError_t add_node(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                     std::size_t count, Work work, cudaError_t error = cudaSuccess);

// Functions that make the work of a node from the program's parameters.

cudaError_t kernel_work(const cudaKernelNodeParams* parameters, KernelWork& work);
cudaError_t copy_work(const cudaMemcpy3DParms* parameters, CopyWork& work);
cudaError_t row_work(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                     CopyWork& work);
cudaError_t fill_work(const cudaMemsetParams* parameters, FillWork& work);
cudaError_t host_work(const cudaHostNodeParams* parameters, HostWork& work);
cudaError_t event_work(cudaEvent_t event, EventRef& ref);
/** @brief Copies `child`. @param graph  the graph that gets the node; null: not known */
cudaError_t child_work(cudaGraph_t graph, cudaGraph_t child, ChildWork& work);

cudaError_t add_allocation(cudaGraphNode_t* made, cudaGraph_t handle, const cudaGraphNode_t* after,
                           std::size_t count, cudaMemAllocNodeParams* parameters);

// Conditional nodes

/** @param context  the context that the program names; may be null */
cudaError_t create_condition(cudaGraphConditionalHandle* made, cudaGraph_t graph, CUctx_st* context,
                             unsigned default_value, unsigned flags);
cudaError_t add_conditional(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                            std::size_t count, cudaConditionalNodeParams* parameters,
                            const CUctx_st* context);

// Functions for nodes of any kind. `function` names the caller in messages.

cudaError_t add_any_node(const char* function, cudaGraphNode_t* made, cudaGraph_t graph,
                         const cudaGraphNode_t* after, std::size_t count,
                         cudaGraphNodeParams* parameters);
cudaError_t set_any_node(const char* function, cudaGraphNode_t node,
                         const cudaGraphNodeParams* parameters);
cudaError_t set_any_node(const char* function, cudaGraphExec_t executable, cudaGraphNode_t original,
                         const cudaGraphNodeParams* parameters);

}  // namespace millrace::virtual_cuda
