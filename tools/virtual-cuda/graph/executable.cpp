#include "graph/executable.hpp"

#include <utility>

#include "check/checker.hpp"
#include "graph/capture.hpp"

namespace millrace::virtual_cuda {
namespace {

/** A launch that is being put together: its operations, which are announced at the end. */
struct NodeLaunch {
  unsigned device;
  std::vector<OperationRef> made;

  OperationRef add(Work work, const std::vector<OperationRef>& after) {
    made.push_back(runtime().engine.add(std::move(work), device, 0, after));
    if (Checker* const check = checker()) check->node(*made.back(), after);
    return made.back();
  }
};

OperationRef launch_nodes(NodeLaunch& launch, const Graph& graph,
                          const std::vector<OperationRef>& start);

OperationRef launch_node(NodeLaunch& launch, const CUgraphNode_st& node,
                         std::vector<OperationRef> after) {
  if (!node.enabled) return launch.add(EmptyWork{}, after);
  if (const auto* const child = std::get_if<ChildWork>(&node.work))
    return launch_nodes(launch, *child->graph, after);
  if (const auto* const wait = std::get_if<WaitWork>(&node.work)) {
    const OperationRef* const last = last_record(wait->event);
    if (last != nullptr) after.push_back(*last);
    const OperationRef operation = launch.add(EmptyWork{}, after);
    if (Checker* const check = checker(); check != nullptr && last != nullptr)
      check->node_waits(*operation, *wait->event.event);
    return operation;
  }
  const OperationRef operation = launch.add(node.work, after);
  if (const auto* const alloc = std::get_if<AllocWork>(&node.work)) {
    runtime().graph_memory.allocate(alloc->address);
  } else if (const auto* const free = std::get_if<FreeWork>(&node.work)) {
    runtime().graph_memory.release(free->address, operation);
  }
  if (const auto* const record = std::get_if<RecordWork>(&node.work)) {
    if (OperationRef* const last = last_record(record->event)) {
      record->event.event->recorded = true;
      *last = operation;
    }
  }
  return operation;
}

// The last operation, which ends when all nodes have.
OperationRef launch_nodes(NodeLaunch& launch, const Graph& graph,
                          const std::vector<OperationRef>& start) {
  std::unordered_map<const CUgraphNode_st*, OperationRef> operations;
  std::vector<OperationRef> all;
  for (const cudaGraphNode_t node : graph.in_order()) {
    std::vector<OperationRef> after;
    for (const cudaGraphNode_t earlier : node->after) after.push_back(operations.at(earlier));
    if (after.empty()) after = start;
    operations[node] = launch_node(launch, *node, std::move(after));
    all.push_back(operations[node]);
  }
  return launch.add(EmptyWork{}, all.empty() ? start : all);
}

// Memory that an earlier launch allocated and that is not free.
void add_unfreed(const Graph& graph, std::vector<void*>& found) {
  for (const auto& node : graph.nodes) {
    if (const auto* const child = std::get_if<ChildWork>(&node->work)) {
      add_unfreed(*child->graph, found);
    } else if (const auto* const alloc = std::get_if<AllocWork>(&node->work)) {
      if (runtime().graph_memory.allocated(alloc->address)) found.push_back(alloc->address);
    }
  }
}

bool same_edges(const CUgraphNode_st& mine, const CUgraphNode_st& other, const NodeMap& pairs) {
  if (mine.after.size() != other.after.size()) return false;
  for (std::size_t i = 0; i < mine.after.size(); ++i)
    if (pairs.at(other.after[i]) != mine.after[i]) return false;
  return true;
}

}  // namespace

cudaGraphExec_t instantiate(const Graph& graph, unsigned long long flags) {
  if (!graph.nodes.empty() && graph.in_order().empty()) return nullptr;
  auto* const executable = new CUgraphExec_st;
  executable->flags = flags;
  executable->graph = graph.clone();
  return executable;
}

cudaGraphNode_t find_node(cudaGraphExec_t executable, const CUgraphNode_st* node) {
  const auto entry = executable->graph->from_original.find(node);
  return entry == executable->graph->from_original.end() ? nullptr : entry->second;
}

cudaError_t launch(Lock& lock, cudaGraphExec_t executable, CUstream_st& stream) {
  if (const cudaError_t error = check_implicit(stream); error != cudaSuccess) return error;
  if (stream.capture != nullptr) return submit(lock, stream, ChildWork{executable->graph->clone()});
  std::vector<void*> unfreed;
  if (!executable->graph->memory->empty()) add_unfreed(*executable->graph, unfreed);
  if (!unfreed.empty() && (executable->flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) == 0)
    return cudaErrorInvalidValue;
  for (void* const address : unfreed) runtime().graph_memory.release(address, executable->last);
  NodeLaunch launch{stream.device, {}};
  std::vector<OperationRef> start = before(stream);
  // Launches of one executable graph run one after the other.
  if (executable->last && !executable->last->done()) start.push_back(executable->last);
  Checker* const check = checker();
  if (check != nullptr) check->begin_launch(stream, executable);
  const OperationRef end = launch_nodes(launch, *executable->graph, start);
  if (check != nullptr) check->end_launch(executable);
  stream.operations += launch.made.size();
  stream.tail = executable->last = end;
  for (const OperationRef& operation : launch.made) runtime().engine.announce(lock, operation);
  return cudaSuccess;
}

cudaGraphExecUpdateResult update(cudaGraphExec_t executable, const Graph& graph,
                                 cudaGraphNode_t* wrong) {
  Graph& mine = *executable->graph;
  if (mine.nodes.size() != graph.nodes.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  NodeMap pairs;
  for (std::size_t i = 0; i < mine.nodes.size(); ++i)
    pairs[graph.nodes[i].get()] = mine.nodes[i].get();
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    *wrong = graph.nodes[i].get();
    if (mine.nodes[i]->work.index() != graph.nodes[i]->work.index())
      return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (!same_edges(*mine.nodes[i], *graph.nodes[i], pairs))
      return cudaGraphExecUpdateErrorTopologyChanged;
  }
  *wrong = nullptr;
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    Work work = graph.nodes[i]->work;
    if (auto* const child = std::get_if<ChildWork>(&work)) child->graph = child->graph->clone();
    mine.nodes[i]->work = std::move(work);
  }
  mine.from_original = std::move(pairs);
  return cudaGraphExecUpdateSuccess;
}

}  // namespace millrace::virtual_cuda
