#include "graph/flaws.hpp"

#include <algorithm>

namespace millrace::virtual_cuda {
namespace {

/** Whether CUDA allows the node in the body of a conditional node. */
bool allowed_in_body(const Work& work) {
  if (const auto* const copy = std::get_if<CopyWork>(&work)) {
    const auto pageable = [](const Plane& plane) {
      return runtime().memory.kind_of(plane.base) == Memory::Kind::pageable;
    };
    return !pageable(copy->to) && !pageable(copy->from);
  }
  return std::holds_alternative<KernelWork>(work) || std::holds_alternative<EmptyWork>(work) ||
         std::holds_alternative<FillWork>(work) || std::holds_alternative<ChildWork>(work) ||
         std::holds_alternative<ConditionalWork>(work);
}

bool has_cycle(const Graph& graph) { return !graph.nodes.empty() && graph.in_order().empty(); }

/** Finds the first flaw. A cycle is a flaw without a node. */
struct Search {
  bool found = false;
  cudaGraphNode_t node = nullptr;

  void look(const Graph& graph, bool in_body) {
    found = found || has_cycle(graph);
    for (const auto& each : graph.nodes) {
      if (found) return;
      if (in_body && !allowed_in_body(each->work)) {
        found = true;
        node = each.get();
      } else if (const auto* const child = std::get_if<ChildWork>(&each->work)) {
        look(*child->graph, in_body);
      } else if (const auto* const conditional = std::get_if<ConditionalWork>(&each->work)) {
        for (const std::shared_ptr<Graph>& body : conditional->bodies) look(*body, true);
      }
    }
  }
};

bool uses(const Graph& graph, const Condition& condition) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    const auto* const work = std::get_if<ConditionalWork>(&node->work);
    if (work == nullptr) return false;
    return work->condition.get() == &condition ||
           std::any_of(work->bodies.begin(), work->bodies.end(),
                       [&](const auto& body) { return uses(*body, condition); });
  });
}

bool all_used(const Graph& graph) {
  return std::all_of(graph.conditions.begin(), graph.conditions.end(),
                     [&](const auto& condition) { return uses(graph, *condition); }) &&
         std::all_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
           const auto* const work = std::get_if<ConditionalWork>(&node->work);
           return work == nullptr || std::all_of(work->bodies.begin(), work->bodies.end(),
                                                 [](const auto& body) { return all_used(*body); });
         });
}

}  // namespace

cudaGraphInstantiateResult flaw_of(const Graph& graph, cudaGraphNode_t* wrong) {
  Search search;
  search.look(graph, false);
  *wrong = search.node;
  if (search.found) return cudaGraphInstantiateInvalidStructure;
  if (!all_used(graph)) return cudaGraphInstantiateConditionalHandleUnused;
  if (has_conditional(graph) && !graph.instance.expired()) return cudaGraphInstantiateError;
  return cudaGraphInstantiateSuccess;
}

}  // namespace millrace::virtual_cuda
