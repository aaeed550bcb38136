// Runs conditional nodes.

#include <cstdio>
#include <utility>

#include "engine/kernels.hpp"
#include "engine/thread.hpp"
#include "graph/launch.hpp"

namespace millrace::virtual_cuda {
namespace {

/** The kernels that a launch of a graph may run, including graphs inside it. */
struct KernelsInside {
  const Kernel* first = nullptr;
  bool computing = false;  // one of them has a host implementation

  void add(const Graph& graph) {
    for (const auto& node : graph.nodes) {
      if (!node->enabled) continue;
      if (const auto* const kernel = std::get_if<KernelWork>(&node->work)) {
        if (first == nullptr) first = kernel->kernel;
        const HostKernel* const host = kernel->kernel->host_kernel;
        computing = computing || (host != nullptr && host->run != nullptr);
      } else if (const auto* const child = std::get_if<ChildWork>(&node->work)) {
        add(*child->graph);
      } else if (const auto* const conditional = std::get_if<ConditionalWork>(&node->work)) {
        for (const std::shared_ptr<Graph>& body : conditional->bodies) add(*body);
      }
    }
  }
};

const Graph* selected(const ConditionalWork& work) {
  std::size_t index = work.condition->value;
  if (work.type != cudaGraphCondTypeSwitch) index = index != 0 ? 0 : 1;
  return index < work.bodies.size() ? work.bodies[index].get() : nullptr;
}

void lose_gpus(const char* why) {
  std::fprintf(stderr,
               "millrace virtual CUDA: a WHILE node does not end: %s: cudaErrorLaunchTimeout\n",
               why);
  process_refusal.store(cudaErrorLaunchTimeout, std::memory_order_relaxed);
}

/**
 * Whether a loop ends after its first pass although its condition is set. It does if nothing in its
 * body can clear the condition. On a GPU, a kernel without a host implementation would probably
 * have cleared it. A body without kernels would never end.
 */
bool stops(const Graph& body) {
  KernelsInside kernels;
  kernels.add(body);
  if (kernels.computing) return false;
  if (kernels.first == nullptr) {
    lose_gpus("its body has no kernel that could set its condition");
  } else {
    static bool said = false;
    if (!std::exchange(said, true))
      std::fprintf(
          stderr,
          "millrace virtual CUDA: the body of a WHILE node ran once: its kernels (%s) have "
          "no host implementations that set its condition\n",
          readable_name(*kernels.first).c_str());
  }
  return true;
}

}  // namespace

void perform(const ConditionalWork& work, const OperationRef& operation) {
  const OperationRef end = work.end.lock();
  const Graph* const body = selected(work);
  if (end == nullptr || body == nullptr) return;
  const bool loop = work.type == cudaGraphCondTypeWhile;
  if (loop && work.ran && stops(*body)) return;
  Launch launch{operation->device, Launch::Of::body};
  OperationRef last = launch.add(*body, {operation});
  if (loop) {
    ConditionalWork again = work;
    again.ran = true;
    last = launch.add(std::move(again), {last});
  }
  runtime().engine.delay(*end, last);
}

}  // namespace millrace::virtual_cuda
