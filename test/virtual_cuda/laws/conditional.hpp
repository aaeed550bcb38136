#pragma once

// Graphs with conditional nodes, and kernels that set their conditions.

#include "test/virtual_cuda/laws/driver.hpp"

// The functions that the compiler's host code calls. The toolkit declares them in a header of nvcc.
extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaUnregisterFatBinary(void** module);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp);
}

namespace millrace::test {

inline constexpr std::size_t kBytes = 64;

inline void set_stub() {}         // kernel that sets a condition
inline void count_down_stub() {}  // kernel that clears its condition when its counter is 0
inline void cannot_stub() {}      // kernel without a host implementation

// set(cudaGraphConditionalHandle condition, unsigned value)
inline void set_on_host(const MillraceLaunch* launch) {
  virtual_cuda().set_conditional(*static_cast<unsigned long long*>(launch->arguments[0]),
                                 *static_cast<unsigned*>(launch->arguments[1]));
}

// count_down(int* counter, cudaGraphConditionalHandle condition)
inline void count_down_on_host(const MillraceLaunch* launch) {
  int& counter =
      *static_cast<int*>(virtual_cuda().data(*static_cast<void**>(launch->arguments[0])));
  if (--counter == 0)
    virtual_cuda().set_conditional(*static_cast<unsigned long long*>(launch->arguments[1]), 0);
}

inline void cost_of_count_down(const MillraceLaunch*, MillraceCost* cost) {
  cost->nanoseconds = 1'000'000;
}

/** A module, registered as a program's static initializers register it. */
class Kernels {
 public:
  Kernels() : module_{__cudaRegisterFatBinary(nullptr)} {
    const auto add = [&](void (*stub)(), const char* name) {
      __cudaRegisterFunction(module_, reinterpret_cast<const char*>(stub), nullptr, name, -1,
                             nullptr, nullptr, nullptr, nullptr, nullptr);
    };
    add(set_stub, "_Z13set_conditionyj");
    add(count_down_stub, "_Z10count_downPiy");
    add(cannot_stub, "_Z18cannot_be_computedy");
    static constexpr std::size_t kSet[] = {sizeof(unsigned long long), sizeof(unsigned)};
    const MillraceKernel set{"_Z13set_conditionyj", kSet, 2, set_on_host, nullptr, nullptr};
    virtual_cuda().add_kernel(&set);
    static constexpr std::size_t kCount[] = {sizeof(void*), sizeof(unsigned long long)};
    const MillraceKernel count{"_Z10count_downPiy", kCount, 2, count_down_on_host,
                               cost_of_count_down,  nullptr};
    virtual_cuda().add_kernel(&count);
  }
  ~Kernels() { __cudaUnregisterFatBinary(module_); }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

 private:
  void** module_;
};

inline cudaGraphConditionalHandle condition_of(cudaGraph_t graph, unsigned value,
                                               unsigned flags = cudaGraphCondAssignDefault) {
  cudaGraphConditionalHandle handle = 0;
  CUDA_OK(cudaGraphConditionalHandleCreate(&handle, graph, value, flags));
  return handle;
}

inline cudaGraphNodeParams conditional(cudaGraphConditionalHandle handle,
                                       cudaGraphConditionalNodeType type, unsigned size = 1) {
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = type;
  parameters.conditional.size = size;
  return parameters;
}

struct Conditional {
  cudaGraphNode_t node = nullptr;
  std::vector<cudaGraph_t> bodies;
};

inline Conditional add_conditional(cudaGraph_t graph, cudaGraphConditionalHandle handle,
                                   cudaGraphConditionalNodeType type, unsigned size = 1,
                                   const std::vector<cudaGraphNode_t>& after = {}) {
  cudaGraphNodeParams parameters = conditional(handle, type, size);
  Conditional made;
  CUDA_OK(cudaGraphAddNode(&made.node, graph, after.data(), nullptr, after.size(), &parameters));
  REQUIRE(parameters.conditional.phGraph_out != nullptr);
  made.bodies.assign(parameters.conditional.phGraph_out, parameters.conditional.phGraph_out + size);
  return made;
}

inline cudaMemsetParams fill_of(const DeviceBlock& block, unsigned value) {
  cudaMemsetParams parameters{};
  parameters.dst = block.get();
  parameters.value = value;
  parameters.elementSize = 1;
  parameters.width = block.bytes();
  parameters.height = 1;
  return parameters;
}

inline cudaGraphNode_t add_fill(cudaGraph_t graph, const DeviceBlock& block, unsigned value,
                                const std::vector<cudaGraphNode_t>& after = {}) {
  const cudaMemsetParams parameters = fill_of(block, value);
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphAddMemsetNode(&node, graph, after.data(), after.size(), &parameters));
  return node;
}

inline cudaGraphNode_t add_kernel(cudaGraph_t graph, void (*stub)(), void** arguments,
                                  const std::vector<cudaGraphNode_t>& after = {}) {
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(stub);
  parameters.gridDim = parameters.blockDim = dim3{1};
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &parameters));
  return node;
}

inline cudaGraphNode_t add_set(cudaGraph_t graph, cudaGraphConditionalHandle handle, unsigned value,
                               const std::vector<cudaGraphNode_t>& after = {}) {
  void* arguments[] = {&handle, &value};
  return add_kernel(graph, set_stub, arguments, after);
}

inline cudaGraphNode_t add_count_down(cudaGraph_t graph, const DeviceBlock& counter,
                                      cudaGraphConditionalHandle handle,
                                      const std::vector<cudaGraphNode_t>& after = {}) {
  void* address = counter.get();
  void* arguments[] = {&address, &handle};
  return add_kernel(graph, count_down_stub, arguments, after);
}

inline void set_counter(const DeviceBlock& counter, int value) {
  CUDA_OK(cudaMemcpy(counter.get(), &value, sizeof value, cudaMemcpyHostToDevice));
  CUDA_OK(cudaDeviceSynchronize());
}
inline int counter_of(const DeviceBlock& counter) {
  int value = 0;
  CUDA_OK(cudaMemcpy(&value, counter.get(), sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

/** A graph and its executable instance. */
struct LaunchedGraph {
  LaunchedGraph() { CUDA_OK(cudaGraphCreate(&graph, 0)); }
  ~LaunchedGraph() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
  LaunchedGraph(const LaunchedGraph&) = delete;
  LaunchedGraph& operator=(const LaunchedGraph&) = delete;
  operator cudaGraph_t() const { return graph; }  // NOLINT: as a handle
  void enqueue(cudaStream_t stream) {
    if (executable == nullptr) executable = instantiate(graph);
    CUDA_OK(cudaGraphLaunch(executable, stream));
  }
  void launch(cudaStream_t stream) {
    enqueue(stream);
    CUDA_OK(cudaStreamSynchronize(stream));
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

/** A loop that counts down from `from` by one in each pass. */
inline void add_loop(cudaGraph_t graph, const DeviceBlock& counter, int from) {
  set_counter(counter, from);
  const cudaGraphConditionalHandle handle = condition_of(graph, 1);
  const Conditional loop = add_conditional(graph, handle, cudaGraphCondTypeWhile);
  add_count_down(loop.bodies[0], counter, handle);
}

}  // namespace millrace::test
