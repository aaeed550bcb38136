#include "exports/graphs.hpp"

#include <algorithm>
#include <fstream>

#include "check/checker.hpp"
#include "graph/drawing.hpp"
#include "graph/executable.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

template <typename Use>
cudaError_t with_graph(cudaGraph_t handle, Use use) {
  const Lock lock = lock_engine();
  Graph* const graph = find_graph(handle);
  return graph == nullptr ? cudaErrorInvalidValue : use(*graph);
}

cudaError_t create(cudaGraph_t* made, unsigned flags) {
  if (made == nullptr || flags != 0) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  *made = keep_graph(std::make_shared<Graph>());
  return cudaSuccess;
}

cudaError_t destroy(cudaGraph_t graph) {
  const Lock lock = lock_engine();
  return destroy_graph(graph) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t clone(cudaGraph_t* made, cudaGraph_t original) {
  if (made == nullptr) return cudaErrorInvalidValue;
  return with_graph(original, [&](const Graph& graph) {
    if (has_conditional(graph)) return cudaErrorNotSupported;
    *made = keep_graph(graph.clone());
    return cudaSuccess;
  });
}

cudaError_t find_in_clone(cudaGraphNode_t* found, cudaGraphNode_t original, cudaGraph_t clone) {
  if (found == nullptr) return cudaErrorInvalidValue;
  return with_graph(clone, [&](const Graph& graph) {
    const auto entry = graph.from_original.find(original);
    if (entry == graph.from_original.end()) return cudaErrorInvalidValue;
    *found = entry->second;
    return cudaSuccess;
  });
}

cudaError_t nodes_of(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count, bool roots) {
  if (count == nullptr) return cudaErrorInvalidValue;
  return with_graph(handle, [&](const Graph& graph) {
    std::vector<cudaGraphNode_t> found;
    for (const auto& node : graph.nodes)
      if (!roots || node->after.empty()) found.push_back(node.get());
    if (nodes != nullptr)
      for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < found.size() ? found[i] : nullptr;
    *count = nodes == nullptr ? found.size() : std::min(*count, found.size());
    return cudaSuccess;
  });
}

cudaError_t type(cudaGraphNode_t node, cudaGraphNodeType* found) {
  if (node == nullptr || found == nullptr) return cudaErrorInvalidValue;
  *found = type_of(node->work);
  return cudaSuccess;
}

cudaError_t destroy_node(cudaGraphNode_t node) {
  if (node == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  node->graph->remove(node);
  return cudaSuccess;
}

cudaError_t draw_to(const char* path, cudaGraph_t handle) {
  if (path == nullptr) return cudaErrorInvalidValue;
  return with_graph(handle, [&](const Graph& graph) {
    std::ofstream file{path};
    file << draw(graph);
    file.close();
    return file.fail() ? cudaErrorOperatingSystem : cudaSuccess;
  });
}

// User objects

cudaError_t create_user(cudaUserObject_t* made, void* object, cudaHostFn_t destroy,
                        unsigned references, unsigned flags) {
  if (made == nullptr || destroy == nullptr || references == 0 ||
      flags != cudaUserObjectNoDestructorSync)
    return cudaErrorInvalidValue;
  *made = new CUuserObject_st{object, destroy, references};
  return cudaSuccess;
}

cudaError_t retain_user(cudaUserObject_t user, unsigned references) {
  if (user == nullptr || references == 0) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  user->references += references;
  return cudaSuccess;
}

cudaError_t drop_user(cudaUserObject_t user, unsigned references) {
  if (user == nullptr || references == 0) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  release_user(user, references);
  return cudaSuccess;
}

cudaError_t retain_in_graph(cudaGraph_t handle, cudaUserObject_t user, unsigned references,
                            unsigned flags) {
  if (user == nullptr || references == 0 || flags > cudaGraphUserObjectMove)
    return cudaErrorInvalidValue;
  return with_graph(handle, [&](Graph& graph) {
    if (flags != cudaGraphUserObjectMove) user->references += references;
    graph.users[user] += references;
    return cudaSuccess;
  });
}

cudaError_t release_in_graph(cudaGraph_t handle, cudaUserObject_t user, unsigned references) {
  return with_graph(handle, [&](Graph& graph) {
    const auto entry = graph.users.find(user);
    if (entry == graph.users.end() || entry->second < references) return cudaErrorInvalidValue;
    entry->second -= references;
    if (entry->second == 0) graph.users.erase(entry);
    release_user(user, references);
    return cudaSuccess;
  });
}

// Executable graphs

cudaError_t make_executable(cudaGraphExec_t* made, cudaGraph_t handle, unsigned long long flags,
                            cudaGraphInstantiateParams* parameters = nullptr) {
  if (made == nullptr) return cudaErrorInvalidValue;
  if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) return cudaErrorNotSupported;
  return with_graph(handle, [&](const Graph& graph) {
    cudaGraphNode_t wrong = nullptr;
    const cudaGraphInstantiateResult result = instantiate(graph, flags, made, &wrong);
    if (parameters != nullptr) {
      parameters->errNode_out = wrong;
      parameters->result_out = result;
    }
    if (result == cudaGraphInstantiateSuccess) return cudaSuccess;
    // cudaGraphInstantiateError: the graph is already instantiated.
    return result == cudaGraphInstantiateError ? cudaErrorNotSupported : cudaErrorInvalidValue;
  });
}

cudaError_t launch_on(cudaGraphExec_t executable, CUstream_st* stream) {
  if (!valid(executable)) return cudaErrorInvalidValue;
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Lock lock = lock_engine();
  spend(lock, Call::launch);
  return launch(lock, executable, *stream);
}

cudaError_t destroy_executable(cudaGraphExec_t executable) {
  if (!valid(executable)) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  // Memory of the graph must outlive a launch in progress.
  if (executable->last && !executable->graph->memory->empty())
    runtime().engine.complete(lock, OperationRef{executable->last}, Engine::Patience::forever);
  executable->magic = 0;
  if (Checker* const check = checker()) check->forget_launches(executable);
  delete executable;
  return cudaSuccess;
}

cudaError_t update_executable(cudaGraphExec_t executable, cudaGraph_t handle,
                              cudaGraphExecUpdateResultInfo* info) {
  if (!valid(executable) || info == nullptr) return cudaErrorInvalidValue;
  return with_graph(handle, [&](const Graph& graph) {
    info->errorNode = info->errorFromNode = nullptr;
    info->result = update(executable, graph, &info->errorNode);
    return info->result == cudaGraphExecUpdateSuccess ? cudaSuccess
                                                      : cudaErrorGraphExecUpdateFailure;
  });
}

cudaError_t enable(cudaGraphExec_t executable, cudaGraphNode_t original, unsigned enabled) {
  if (!valid(executable)) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const cudaGraphNode_t node = find_node(executable, original);
  if (node == nullptr) return cudaErrorInvalidValue;
  node->enabled = enabled != 0;
  return cudaSuccess;
}

cudaError_t is_enabled(cudaGraphExec_t executable, cudaGraphNode_t original, unsigned* enabled) {
  if (!valid(executable) || enabled == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const cudaGraphNode_t node = find_node(executable, original);
  if (node == nullptr) return cudaErrorInvalidValue;
  *enabled = node->enabled ? 1 : 0;
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), return create(graph, flags);)
MILLRACE_CALL(cudaGraphDestroy, (cudaGraph_t graph), return destroy(graph);)
MILLRACE_CALL(cudaGraphClone, (cudaGraph_t * made, cudaGraph_t original),
              return clone(made, original);)
MILLRACE_CALL(cudaGraphNodeFindInClone,
              (cudaGraphNode_t * found, cudaGraphNode_t original, cudaGraph_t copy),
              return find_in_clone(found, original, copy);)
MILLRACE_CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count),
              return nodes_of(graph, nodes, count, false);)
MILLRACE_CALL(cudaGraphGetRootNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count),
              return nodes_of(graph, nodes, count, true);)
MILLRACE_CALL(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* found),
              return type(node, found);)
MILLRACE_CALL(cudaGraphDestroyNode, (cudaGraphNode_t node), return destroy_node(node);)
MILLRACE_CALL(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned),
              return draw_to(path, graph);)
MILLRACE_CALL(cudaUserObjectCreate,
              (cudaUserObject_t * made, void* object, cudaHostFn_t destroyer, unsigned references,
               unsigned flags),
              return create_user(made, object, destroyer, references, flags);)
MILLRACE_CALL(cudaUserObjectRetain, (cudaUserObject_t user, unsigned references),
              return retain_user(user, references);)
MILLRACE_CALL(cudaUserObjectRelease, (cudaUserObject_t user, unsigned references),
              return drop_user(user, references);)
MILLRACE_CALL(cudaGraphRetainUserObject,
              (cudaGraph_t graph, cudaUserObject_t user, unsigned references, unsigned flags),
              return retain_in_graph(graph, user, references, flags);)
MILLRACE_CALL(cudaGraphReleaseUserObject,
              (cudaGraph_t graph, cudaUserObject_t user, unsigned references),
              return release_in_graph(graph, user, references);)
MILLRACE_CALL(cudaGraphInstantiate,
              (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
              return make_executable(made, graph, flags);)
MILLRACE_CALL(cudaGraphInstantiateWithFlags,
              (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
              return make_executable(made, graph, flags);)
MILLRACE_TWINS(cudaGraphInstantiateWithParams, ptsz,
               (cudaGraphExec_t * made, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
               static_cast<void>(meaning);
               return parameters == nullptr
                          ? cudaErrorInvalidValue
                          : make_executable(made, graph, parameters->flags, parameters);)
MILLRACE_CALL(cudaGraphExecGetFlags, (cudaGraphExec_t executable, unsigned long long* flags),
              if (!valid(executable) || flags == nullptr) return cudaErrorInvalidValue;
              *flags = executable->flags; return cudaSuccess;)
MILLRACE_CALL(cudaGraphExecDestroy, (cudaGraphExec_t executable),
              return destroy_executable(executable);)
MILLRACE_CALL(cudaGraphExecUpdate,
              (cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info),
              return update_executable(executable, graph, info);)
MILLRACE_CALL(cudaGraphNodeSetEnabled,
              (cudaGraphExec_t executable, cudaGraphNode_t node, unsigned enabled),
              return enable(executable, node, enabled);)
MILLRACE_CALL(cudaGraphNodeGetEnabled,
              (cudaGraphExec_t executable, cudaGraphNode_t node, unsigned* enabled),
              return is_enabled(executable, node, enabled);)
MILLRACE_TWINS(cudaGraphLaunch, ptsz, (cudaGraphExec_t executable, cudaStream_t stream),
               return launch_on(executable, find_stream(stream, meaning));)
MILLRACE_TWINS(cudaGraphUpload, ptsz, (cudaGraphExec_t executable, cudaStream_t stream),
               if (!valid(executable)) return cudaErrorInvalidValue;
               return find_stream(stream, meaning) == nullptr ? cudaErrorInvalidResourceHandle
                                                              : cudaSuccess;)
