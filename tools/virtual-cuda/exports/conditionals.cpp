#include "exports/graphs.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr unsigned kMostBodiesOfIf = 2;

bool fits(cudaGraphConditionalNodeType type, unsigned bodies) {
  switch (type) {
    case cudaGraphCondTypeIf:
      return bodies >= 1 && bodies <= kMostBodiesOfIf;
    case cudaGraphCondTypeWhile:
      return bodies == 1;
    case cudaGraphCondTypeSwitch:
      return bodies >= 1;
  }
  return false;
}

ConditionalWork conditional_work(Graph& owner, const std::shared_ptr<Condition>& condition,
                                 const cudaConditionalNodeParams& parameters) {
  ConditionalWork work;
  work.condition = condition;
  work.type = parameters.type;
  work.handles.reset(new cudaGraph_t[parameters.size]);
  for (unsigned i = 0; i < parameters.size; ++i) {
    Graph& body = *work.bodies.emplace_back(std::make_shared<Graph>());
    body.body_of = owner.weak_from_this();
    work.handles[i] = handle_of(&body);
  }
  return work;
}

}  // namespace

cudaError_t create_condition(cudaGraphConditionalHandle* made, cudaGraph_t handle,
                             CUctx_st* context, unsigned default_value, unsigned flags) {
  if (made == nullptr || (flags & ~static_cast<unsigned>(cudaGraphCondAssignDefault)) != 0)
    return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  Graph* const graph = find_graph(handle);
  if (graph == nullptr) return cudaErrorInvalidValue;
  if (graph->in_child_node) return cudaErrorNotSupported;
  auto condition =
      std::make_shared<Condition>(default_value, (flags & cudaGraphCondAssignDefault) != 0);
  condition->context = context;
  *made = condition->handle;
  graph->conditions.push_back(std::move(condition));
  return cudaSuccess;
}

cudaError_t add_conditional(cudaGraphNode_t* made, cudaGraph_t handle, const cudaGraphNode_t* after,
                            std::size_t count, cudaConditionalNodeParams* parameters,
                            const CUctx_st* context) {
  if (!fits(parameters->type, parameters->size)) return cudaErrorInvalidValue;
  ConditionalWork work;
  {
    const Lock lock = lock_engine();
    Graph* const graph = find_graph(handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    if (graph->in_child_node) return cudaErrorNotSupported;
    const std::shared_ptr<Condition> condition = find_condition(*graph, parameters->handle);
    if (condition == nullptr) return cudaErrorInvalidValue;
    if (context != nullptr && condition->context != nullptr && condition->context != context)
      return cudaErrorInvalidValue;
    work = conditional_work(*graph, condition, *parameters);
  }
  cudaGraph_t* const bodies = work.handles.get();
  const cudaError_t error = add_node(made, handle, after, count, std::move(work));
  if (error == cudaSuccess) parameters->phGraph_out = bodies;
  return error;
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

MILLRACE_CALL(cudaGraphConditionalHandleCreate,
              (cudaGraphConditionalHandle * made, cudaGraph_t graph, unsigned default_value,
               unsigned flags),
              return create_condition(made, graph, nullptr, default_value, flags);)
