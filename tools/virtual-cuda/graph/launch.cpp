#include "graph/launch.hpp"

#include <utility>

#include "check/checker.hpp"

namespace millrace::virtual_cuda {
namespace {

OperationRef outside_of_the_engine(Work work, unsigned device) {
  auto operation = std::make_shared<Operation>();
  operation->device = device;
  operation->work = std::move(work);
  return operation;
}

}  // namespace

OperationRef Launch::add(Work work, const std::vector<OperationRef>& after,
                         const std::vector<OperationRef>& shown) {
  Engine& engine = runtime().engine;
  if (of_ == Of::body) return engine.add_within(std::move(work), device_, after);
  OperationRef operation;
  if (of_ == Of::prospect) {
    operation = prospects_.emplace_back(outside_of_the_engine(std::move(work), device_));
  } else {
    operation = made_.emplace_back(engine.add(std::move(work), device_, 0, after));
  }
  if (Checker* const check = checker()) check->node(*operation, shown);
  return operation;
}

OperationRef Launch::add(const Graph& graph, const std::vector<OperationRef>& start) {
  std::unordered_map<const CUgraphNode_st*, OperationRef> operations;
  std::vector<OperationRef> all;
  for (const cudaGraphNode_t node : graph.in_order()) {
    std::vector<OperationRef> after;
    for (const cudaGraphNode_t earlier : node->after) after.push_back(operations.at(earlier));
    if (after.empty()) after = start;
    operations[node] = add_node(*node, std::move(after));
    all.push_back(operations[node]);
  }
  return add(EmptyWork{}, all.empty() ? start : all);
}

OperationRef Launch::add_node(const CUgraphNode_st& node, std::vector<OperationRef> after) {
  if (!node.enabled) return add(EmptyWork{}, after);
  if (const auto* const child = std::get_if<ChildWork>(&node.work))
    return add(*child->graph, after);
  if (const auto* const conditional = std::get_if<ConditionalWork>(&node.work))
    return add_conditional(*conditional, after);
  if (const auto* const wait = std::get_if<WaitWork>(&node.work)) {
    const OperationRef* const last = last_record(wait->event);
    if (last != nullptr) after.push_back(*last);
    OperationRef operation = add(EmptyWork{}, after);
    if (Checker* const check = checker(); check != nullptr && last != nullptr)
      check->node_waits(*operation, *wait->event.event);
    return operation;
  }
  OperationRef operation = add(node.work, after);
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

OperationRef Launch::add_conditional(const ConditionalWork& work,
                                     const std::vector<OperationRef>& after) {
  ConditionalWork chosen_later = work;
  // Bodies are copied: the graph may change before the condition's value is known.
  if (of_ == Of::program)
    for (std::shared_ptr<Graph>& body : chosen_later.bodies) body = body->clone();
  const OperationRef choice = add(std::move(chosen_later), after);
  std::vector<OperationRef> shown{choice};
  if (checker() != nullptr && of_ != Of::body) {
    // Which body runs is not known yet. The checker gets all bodies in sequence, because they never
    // run concurrently.
    const Of of = std::exchange(of_, Of::prospect);
    for (const std::shared_ptr<Graph>& body : work.bodies) shown = {add(*body, shown)};
    of_ = of;
  }
  OperationRef end = add(EmptyWork{}, {choice}, shown);
  std::get<ConditionalWork>(choice->work).end = end;
  return end;
}

}  // namespace millrace::virtual_cuda
