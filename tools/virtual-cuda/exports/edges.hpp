#pragma once

#include "exports/captures.hpp"
#include "exports/graphs.hpp"

/// @file
/// The functions for the edges of a graph and the state of a capture. Each runtime and the driver
/// export them under different names. Earlier versions have no data of edges.
///
/// CALL is MILLRACE_CALL or MILLRACE_DRIVER_CALL, TWINS is MILLRACE_TWINS or
/// MILLRACE_CONTEXT_TWINS. A suffix may be empty.

#define MILLRACE_EDGE_CALLS(CALL, prefix)                                                      \
  CALL(prefix##GetEdges,                                                                       \
       (cudaGraph_t graph, cudaGraphNode_t * from, cudaGraphNode_t * to, std::size_t * count), \
       return graph_edges(graph, from, to, nullptr, count);)                                   \
  CALL(prefix##NodeGetDependencies,                                                            \
       (cudaGraphNode_t node, cudaGraphNode_t * nodes, std::size_t * count),                   \
       return node_dependencies(node, nodes, nullptr, count);)                                 \
  CALL(prefix##NodeGetDependentNodes,                                                          \
       (cudaGraphNode_t node, cudaGraphNode_t * nodes, std::size_t * count),                   \
       return node_dependents(node, nodes, nullptr, count);)                                   \
  CALL(prefix##AddDependencies,                                                                \
       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,             \
        std::size_t count),                                                                    \
       return add_edges(graph, from, to, count);)                                              \
  CALL(prefix##RemoveDependencies,                                                             \
       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,             \
        std::size_t count),                                                                    \
       return remove_edges(graph, from, to, count);)

#define MILLRACE_EDGE_CALLS_WITH_DATA(CALL, prefix, suffix)                                        \
  CALL(prefix##GetEdges##suffix,                                                                   \
       (cudaGraph_t graph, cudaGraphNode_t * from, cudaGraphNode_t * to, cudaGraphEdgeData * data, \
        std::size_t * count),                                                                      \
       return graph_edges(graph, from, to, data, count);)                                          \
  CALL(prefix##NodeGetDependencies##suffix,                                                        \
       (cudaGraphNode_t node, cudaGraphNode_t * nodes, cudaGraphEdgeData * data,                   \
        std::size_t * count),                                                                      \
       return node_dependencies(node, nodes, data, count);)                                        \
  CALL(prefix##NodeGetDependentNodes##suffix,                                                      \
       (cudaGraphNode_t node, cudaGraphNode_t * nodes, cudaGraphEdgeData * data,                   \
        std::size_t * count),                                                                      \
       return node_dependents(node, nodes, data, count);)                                          \
  CALL(prefix##AddDependencies##suffix,                                                            \
       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,                 \
        const cudaGraphEdgeData*, std::size_t count),                                              \
       return add_edges(graph, from, to, count);)                                                  \
  CALL(prefix##RemoveDependencies##suffix,                                                         \
       (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,                 \
        const cudaGraphEdgeData*, std::size_t count),                                              \
       return remove_edges(graph, from, to, count);)

#define MILLRACE_CAPTURE_CALLS(TWINS, prefix)                                                      \
  TWINS(prefix##GetCaptureInfo, ptsz,                                                              \
        (cudaStream_t stream, cudaStreamCaptureStatus * status, unsigned long long* id),           \
        return capture_info(find_stream(stream, meaning), {status, id, {}, {}, {}, {}});)          \
  TWINS(prefix##GetCaptureInfo_v2, ptsz,                                                           \
        (cudaStream_t stream, cudaStreamCaptureStatus * status, unsigned long long* id,            \
         cudaGraph_t* graph, const cudaGraphNode_t** nodes, std::size_t* count),                   \
        return capture_info(find_stream(stream, meaning), {status, id, graph, nodes, {}, count});) \
  TWINS(prefix##UpdateCaptureDependencies, ptsz,                                                   \
        (cudaStream_t stream, cudaGraphNode_t * nodes, std::size_t count, unsigned flags),         \
        return update_dependencies(find_stream(stream, meaning), nodes, count, flags);)

#define MILLRACE_CAPTURE_CALLS_WITH_DATA(TWINS, prefix, info_suffix, update_suffix)          \
  TWINS(prefix##GetCaptureInfo##info_suffix, ptsz,                                           \
        (cudaStream_t stream, cudaStreamCaptureStatus * status, unsigned long long* id,      \
         cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges, \
         std::size_t* count),                                                                \
        return capture_info(find_stream(stream, meaning),                                    \
                            {status, id, graph, nodes, edges, count});)                      \
  TWINS(prefix##UpdateCaptureDependencies##update_suffix, ptsz,                              \
        (cudaStream_t stream, cudaGraphNode_t * nodes, const cudaGraphEdgeData*,             \
         std::size_t count, unsigned flags),                                                 \
        return update_dependencies(find_stream(stream, meaning), nodes, count, flags);)
