#include "graph/executable.hpp"

#include <utility>

#include "check/checker.hpp"
#include "graph/capture.hpp"
#include "graph/flaws.hpp"
#include "graph/launch.hpp"

namespace millrace::virtual_cuda {
namespace {

// Adds memory that an earlier launch allocated and that was not freed.
void add_unfreed(const Graph& graph, std::vector<void*>& found) {
  for (const auto& node : graph.nodes) {
    if (const auto* const child = std::get_if<ChildWork>(&node->work)) {
      add_unfreed(*child->graph, found);
    } else if (const auto* const alloc = std::get_if<AllocWork>(&node->work)) {
      if (runtime().graph_memory.allocated(alloc->address)) found.push_back(alloc->address);
    }
  }
}

/** Adds conditions of the graph and of its bodies that each launch resets. */
void add_assigned(const Graph& graph, AssignWork& work) {
  for (const std::shared_ptr<Condition>& condition : graph.conditions)
    if (condition->assigned) work.conditions.push_back(condition);
  for (const auto& node : graph.nodes)
    if (const auto* const conditional = std::get_if<ConditionalWork>(&node->work))
      for (const std::shared_ptr<Graph>& body : conditional->bodies) add_assigned(*body, work);
}

cudaGraphNode_t find_node(const Graph& graph, const CUgraphNode_st* node) {
  const auto entry = graph.from_original.find(node);
  if (entry != graph.from_original.end()) return entry->second;
  for (const auto& mine : graph.nodes) {
    const auto* const conditional = std::get_if<ConditionalWork>(&mine->work);
    if (conditional == nullptr) continue;
    for (const std::shared_ptr<Graph>& body : conditional->bodies)
      if (const cudaGraphNode_t found = find_node(*body, node)) return found;
  }
  return nullptr;
}

bool same_edges(const CUgraphNode_st& mine, const CUgraphNode_st& other, const NodeMap& pairs) {
  if (mine.after.size() != other.after.size()) return false;
  for (std::size_t i = 0; i < mine.after.size(); ++i)
    if (pairs.at(other.after[i]) != mine.after[i]) return false;
  return true;
}

NodeMap pairs_of(const Graph& mine, const Graph& other) {
  NodeMap pairs;
  for (std::size_t i = 0; i < mine.nodes.size(); ++i)
    pairs[other.nodes[i].get()] = mine.nodes[i].get();
  return pairs;
}

/** Whether `mine` can take over the parameters of `other`. */
cudaGraphExecUpdateResult compare(const Graph& mine, const Graph& other, cudaGraphNode_t* wrong) {
  *wrong = nullptr;
  if (mine.nodes.size() != other.nodes.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  const NodeMap pairs = pairs_of(mine, other);
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    const CUgraphNode_st& node = *mine.nodes[i];
    *wrong = other.nodes[i].get();
    if (node.work.index() != (*wrong)->work.index()) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (!same_edges(node, **wrong, pairs)) return cudaGraphExecUpdateErrorTopologyChanged;
    const auto* const conditional = std::get_if<ConditionalWork>(&node.work);
    if (conditional == nullptr) continue;
    const auto& new_one = std::get<ConditionalWork>((*wrong)->work);
    if (conditional->type != new_one.type || conditional->bodies.size() != new_one.bodies.size())
      return cudaGraphExecUpdateErrorParametersChanged;
    for (std::size_t body = 0; body < new_one.bodies.size(); ++body) {
      cudaGraphNode_t inside = nullptr;
      const cudaGraphExecUpdateResult result =
          compare(*conditional->bodies[body], *new_one.bodies[body], &inside);
      if (result == cudaGraphExecUpdateSuccess) continue;
      if (inside != nullptr) *wrong = inside;
      return result;
    }
  }
  *wrong = nullptr;
  return cudaGraphExecUpdateSuccess;
}

void take_over(Graph& mine, const Graph& other) {
  for (std::size_t i = 0; i < mine.nodes.size(); ++i) {
    Work& work = mine.nodes[i]->work;
    const Work& new_one = other.nodes[i]->work;
    if (auto* const conditional = std::get_if<ConditionalWork>(&work)) {
      conditional->condition = std::get<ConditionalWork>(new_one).condition;
      for (std::size_t body = 0; body < conditional->bodies.size(); ++body)
        take_over(*conditional->bodies[body], *std::get<ConditionalWork>(new_one).bodies[body]);
      continue;
    }
    work = new_one;
    if (auto* const child = std::get_if<ChildWork>(&work))
      child->graph = child->graph->clone_for_child_node();
  }
  mine.conditions = other.conditions;
  mine.from_original = pairs_of(mine, other);
}

}  // namespace

cudaGraphInstantiateResult instantiate(const Graph& graph, unsigned long long flags,
                                       cudaGraphExec_t* made, cudaGraphNode_t* wrong) {
  *made = nullptr;
  const cudaGraphInstantiateResult flaw = flaw_of(graph, wrong);
  if (flaw != cudaGraphInstantiateSuccess) return flaw;
  *made = new CUgraphExec_st;
  (*made)->flags = flags;
  (*made)->graph = graph.clone();
  graph.instance = (*made)->graph;
  return flaw;
}

cudaGraphNode_t find_node(cudaGraphExec_t executable, const CUgraphNode_st* node) {
  return find_node(*executable->graph, node);
}

cudaError_t launch(Lock& lock, cudaGraphExec_t executable, CUstream_st& stream) {
  if (const cudaError_t error = check_implicit(stream); error != cudaSuccess) return error;
  const Graph& graph = *executable->graph;
  if (stream.capture != nullptr)
    return has_conditional(graph) ? cudaErrorNotSupported
                                  : submit(lock, stream, ChildWork{graph.clone_for_child_node()});
  std::vector<void*> unfreed;
  if (!graph.memory->empty()) add_unfreed(graph, unfreed);
  if (!unfreed.empty() && (executable->flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) == 0)
    return cudaErrorInvalidValue;
  for (void* const address : unfreed) runtime().graph_memory.release(address, executable->last);
  Launch launch{stream.device, Launch::Of::program};
  std::vector<OperationRef> start = before(stream);
  // Launches of one executable graph run one after the other.
  if (executable->last && !executable->last->done()) start.push_back(executable->last);
  Checker* const check = checker();
  if (check != nullptr) check->begin_launch(stream, executable);
  AssignWork assigned;
  add_assigned(graph, assigned);
  if (!assigned.conditions.empty()) start = {launch.add(std::move(assigned), start)};
  const OperationRef end = launch.add(graph, start);
  if (check != nullptr) check->end_launch(executable);
  stream.operations += launch.made().size();
  stream.tail = executable->last = end;
  for (const OperationRef& operation : launch.made()) runtime().engine.announce(lock, operation);
  return cudaSuccess;
}

cudaGraphExecUpdateResult update(cudaGraphExec_t executable, const Graph& graph,
                                 cudaGraphNode_t* wrong) {
  const cudaGraphExecUpdateResult result = compare(*executable->graph, graph, wrong);
  if (result == cudaGraphExecUpdateSuccess) take_over(*executable->graph, graph);
  return result;
}

}  // namespace millrace::virtual_cuda
