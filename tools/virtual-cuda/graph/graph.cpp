#include "graph/graph.hpp"

#include <algorithm>
#include <thread>
#include <utility>

namespace millrace::virtual_cuda {
namespace {

// Graphs that the program owns. Guarded by the engine's lock.
std::map<cudaGraph_t, std::shared_ptr<Graph>>& kept_graphs() {
  static auto* const all = new std::map<cudaGraph_t, std::shared_ptr<Graph>>;
  return *all;
}

struct TypeOf {
  cudaGraphNodeType operator()(const EmptyWork&) const { return cudaGraphNodeTypeEmpty; }
  cudaGraphNodeType operator()(const CopyWork&) const { return cudaGraphNodeTypeMemcpy; }
  cudaGraphNodeType operator()(const FillWork&) const { return cudaGraphNodeTypeMemset; }
  cudaGraphNodeType operator()(const HostWork&) const { return cudaGraphNodeTypeHost; }
  cudaGraphNodeType operator()(const KernelWork&) const { return cudaGraphNodeTypeKernel; }
  cudaGraphNodeType operator()(const RecordWork&) const { return cudaGraphNodeTypeEventRecord; }
  cudaGraphNodeType operator()(const WaitWork&) const { return cudaGraphNodeTypeWaitEvent; }
  cudaGraphNodeType operator()(const AllocWork&) const { return cudaGraphNodeTypeMemAlloc; }
  cudaGraphNodeType operator()(const FreeWork&) const { return cudaGraphNodeTypeMemFree; }
  cudaGraphNodeType operator()(const ChildWork&) const { return cudaGraphNodeTypeGraph; }
  cudaGraphNodeType operator()(const ConditionalWork&) const {
    return cudaGraphNodeTypeConditional;
  }
  cudaGraphNodeType operator()(const AssignWork&) const { return cudaGraphNodeTypeEmpty; }
};

/** A copy for a node of `owner`, with copies of the bodies. */
ConditionalWork copy_of(const ConditionalWork& original, const std::shared_ptr<Graph>& owner) {
  ConditionalWork copy = original;
  copy.handles.reset(new cudaGraph_t[copy.bodies.size()]);
  for (std::size_t i = 0; i < copy.bodies.size(); ++i) {
    copy.bodies[i] = original.bodies[i]->clone();
    copy.bodies[i]->body_of = owner;
    copy.handles[i] = handle_of(copy.bodies[i].get());
  }
  return copy;
}

}  // namespace

Graph::~Graph() {
  magic = 0;
  for (const auto& [user, references] : users) release_user(user, references);
  if (memory.use_count() == 1)
    for (void* const address : *memory) runtime().graph_memory.abandon(address);
}

cudaGraphNode_t Graph::add(Work work, std::vector<cudaGraphNode_t> after) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->number = ++numbers;
  node->graph = this;
  node->work = std::move(work);
  node->after = std::move(after);
  return nodes.emplace_back(std::move(node)).get();
}

bool Graph::owns(const CUgraphNode_st* node) const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const auto& mine) { return mine.get() == node; });
}

std::vector<cudaGraphNode_t> Graph::in_order() const {
  std::unordered_map<const CUgraphNode_st*, std::size_t> missing;
  std::unordered_map<const CUgraphNode_st*, std::vector<cudaGraphNode_t>> later;
  std::vector<cudaGraphNode_t> order;
  for (const auto& node : nodes) {
    missing[node.get()] = node->after.size();
    if (node->after.empty()) order.push_back(node.get());
    for (const cudaGraphNode_t earlier : node->after) later[earlier].push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const cudaGraphNode_t node : later[order[i]])
      if (--missing[node] == 0) order.push_back(node);
  if (order.size() != nodes.size()) order.clear();
  return order;
}

std::vector<cudaGraphNode_t> Graph::dependents(const CUgraphNode_st* node) const {
  std::vector<cudaGraphNode_t> found;
  for (const auto& other : nodes)
    if (std::find(other->after.begin(), other->after.end(), node) != other->after.end())
      found.push_back(other.get());
  return found;
}

void Graph::remove(cudaGraphNode_t node) {
  for (const auto& other : nodes) std::erase(other->after, node);
  std::erase_if(nodes, [&](const auto& mine) { return mine.get() == node; });
}

std::shared_ptr<Graph> Graph::clone() const {
  auto copy = std::make_shared<Graph>();
  for (const auto& node : nodes) {
    Work work = node->work;
    if (auto* const child = std::get_if<ChildWork>(&work))
      child->graph = child->graph->clone_for_child_node();
    if (auto* const conditional = std::get_if<ConditionalWork>(&work))
      *conditional = copy_of(*conditional, copy);
    const cudaGraphNode_t made = copy->add(std::move(work), {});
    made->enabled = node->enabled;
    made->attributes = node->attributes;
    copy->from_original[node.get()] = made;
  }
  for (const auto& node : nodes)
    for (const cudaGraphNode_t earlier : node->after)
      copy->from_original.at(node.get())->after.push_back(copy->from_original.at(earlier));
  for (const auto& [user, references] : users) {
    user->references += references;
    copy->users[user] = references;
  }
  copy->conditions = conditions;
  copy->memory = memory;
  return copy;
}

std::shared_ptr<Graph> Graph::clone_for_child_node() const {
  std::shared_ptr<Graph> copy = clone();
  copy->in_child_node = true;
  return copy;
}

cudaGraph_t keep_graph(std::shared_ptr<Graph> graph) {
  const cudaGraph_t handle = handle_of(graph.get());
  kept_graphs()[handle] = std::move(graph);
  return handle;
}

bool destroy_graph(cudaGraph_t handle) { return kept_graphs().erase(handle) != 0; }

void release_user(cudaUserObject_t user, std::uint64_t references) {
  user->references -= std::min(references, user->references);
  if (user->references != 0) return;
  // The destructor function may not call CUDA, and runs without the runtime's lock.
  std::thread{[function = user->destroy, object = user->object] {
    const InHostFunction mark{Operation::kNoCallback};
    function(object);
  }}.detach();
  delete user;
}

std::shared_ptr<Condition> find_condition(Graph& graph, cudaGraphConditionalHandle handle) {
  for (std::shared_ptr<Graph> at = graph.shared_from_this(); at != nullptr; at = at->body_of.lock())
    for (const std::shared_ptr<Condition>& condition : at->conditions)
      if (condition->handle == handle) return condition;
  return nullptr;
}

bool has_conditional(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    if (const auto* const child = std::get_if<ChildWork>(&node->work))
      return has_conditional(*child->graph);
    return std::holds_alternative<ConditionalWork>(node->work);
  });
}

cudaGraphNodeType type_of(const Work& work) noexcept { return std::visit(TypeOf{}, work); }

}  // namespace millrace::virtual_cuda
