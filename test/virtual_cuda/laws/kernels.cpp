#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "test/virtual_cuda/laws/driver.hpp"

// The functions that the compiler's host code calls. The toolkit declares them in a header of nvcc.
extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaUnregisterFatBinary(void** module);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp);
void __cudaRegisterVar(void** module, char* host_variable, char* address, const char* name,
                       int external, std::size_t bytes, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream);
}

using namespace millrace::test;

namespace {

void add_stub() {}       // the host function that nvcc would generate for a kernel
void silent_stub() {}    // kernel without a host implementation
void fill_stub() {}      // kernel that is known by its readable name, with a cost
char counter_shadow[8];  // the host's shadow of a device variable

// add(int* to, int value, std::size_t count): adds to each element
void add_on_host(const MillraceLaunch* launch) {
  auto* const to =
      static_cast<int*>(virtual_cuda().data(*static_cast<void**>(launch->arguments[0])));
  const int value = *static_cast<int*>(launch->arguments[1]);
  const std::size_t count = *static_cast<std::size_t*>(launch->arguments[2]);
  for (std::size_t i = 0; i < count; ++i) to[i] += value * static_cast<int>(launch->block[0]);
}

// fill<int>(int* to, int value, long long nanoseconds, double flops): sets one element
void fill_on_host(const MillraceLaunch* launch) {
  *static_cast<int*>(virtual_cuda().data(*static_cast<void**>(launch->arguments[0]))) =
      *static_cast<int*>(launch->arguments[1]);
}

void cost_of_fill(const MillraceLaunch* launch, MillraceCost* cost) {
  cost->nanoseconds = *static_cast<long long*>(launch->arguments[2]);
  cost->flops = *static_cast<double*>(launch->arguments[3]);
}

/** A module, registered as a program's static initializers register it. */
class Module {
 public:
  Module() : module_{__cudaRegisterFatBinary(nullptr)} {
    const auto add = [&](void (*stub)(), const char* name) {
      __cudaRegisterFunction(module_, reinterpret_cast<const char*>(stub), nullptr, name, -1,
                             nullptr, nullptr, nullptr, nullptr, nullptr);
    };
    add(add_stub, "_Z3addPiim");
    add(silent_stub, "_Z6silentv");
    add(fill_stub, "_ZN5other4fillIiEEvPT_ixd");
    __cudaRegisterVar(module_, counter_shadow, nullptr, "counter", 0, sizeof counter_shadow, 0, 0);
    __cudaRegisterFatBinaryEnd(module_);
    static constexpr std::size_t kBytes[] = {sizeof(void*), sizeof(int), sizeof(std::size_t)};
    const MillraceKernel kernel{"_Z3add*", kBytes, 3, add_on_host, nullptr};
    virtual_cuda().add_kernel(&kernel);
    static constexpr std::size_t kFill[] = {sizeof(void*), sizeof(int), sizeof(long long),
                                            sizeof(double)};
    const MillraceKernel fill{"void other::fill<int>(int\\*, *", kFill, 4, fill_on_host,
                              cost_of_fill};
    virtual_cuda().add_kernel(&fill);
  }
  ~Module() { __cudaUnregisterFatBinary(module_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

 private:
  void** module_;
};

cudaError_t launch_add(int* to, int value, std::size_t count, cudaStream_t stream) {
  void* arguments[] = {&to, &value, &count};
  return cudaLaunchKernel(reinterpret_cast<const void*>(add_stub), dim3{1}, dim3{2}, arguments, 0,
                          stream);
}

cudaError_t launch_fill(int* to, int value, long long nanoseconds, double flops,
                        cudaStream_t stream) {
  void* arguments[] = {&to, &value, &nanoseconds, &flops};
  return cudaLaunchKernel(reinterpret_cast<const void*>(fill_stub), dim3{1}, dim3{1}, arguments, 0,
                          stream);
}

/** The time from before the launch of a kernel with this cost to its end, in nanoseconds. */
double time_of_fill(long long nanoseconds, double flops) {
  const Stream stream;
  const DeviceBlock block{sizeof(int)};
  const Event begin{cudaEventDefault}, end{cudaEventDefault};
  CUDA_OK(cudaEventRecord(begin, stream));
  CUDA_OK(launch_fill(reinterpret_cast<int*>(block.get()), 1, nanoseconds, flops, stream));
  CUDA_OK(cudaEventRecord(end, stream));
  CUDA_OK(cudaEventSynchronize(end));
  float milliseconds = 0;
  CUDA_OK(cudaEventElapsedTime(&milliseconds, begin, end));
  return static_cast<double>(milliseconds) * 1e6;
}

std::vector<int> integers(const DeviceBlock& block) {
  std::vector<int> found(block.bytes() / sizeof(int));
  CUDA_OK(cudaMemcpy(found.data(), block.get(), block.bytes(), cudaMemcpyDeviceToHost));
  return found;
}

}  // namespace

TEST_CASE(
    "a kernel with a host implementation computes in stream order, with its arguments copied") {
  const Module module;
  const Stream stream;
  const DeviceBlock block{16 * sizeof(int)};
  auto* const to = reinterpret_cast<int*>(block.get());
  CUDA_OK(cudaMemsetAsync(to, 0, block.bytes(), stream));
  for (int value = 1; value <= 3; ++value) CUDA_OK(launch_add(to, value, 16, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(integers(block) == std::vector<int>(16, 12));
  CUDA_OK(cudaMemsetAsync(to, 0, block.bytes(), stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(integers(block) == std::vector<int>(16, 0));
}

TEST_CASE("a captured launch computes at each launch of its graph") {
  const Module module;
  const Stream stream;
  const DeviceBlock block{16 * sizeof(int)};
  auto* const to = reinterpret_cast<int*>(block.get());
  CUDA_OK(cudaMemset(to, 0, block.bytes()));
  CUDA_OK(cudaDeviceSynchronize());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(launch_add(to, 5, 16, stream));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(integers(block) == std::vector<int>(16, 30));
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("an invalid launch is refused") {
  const Module module;
  const Stream stream;
  const auto launch = [&](dim3 grid, dim3 block, std::size_t shared) {
    return cudaLaunchKernel(reinterpret_cast<const void*>(silent_stub), grid, block, nullptr,
                            shared, stream);
  };
  CUDA_OK(launch({1}, {1024}, 0));
  CHECK(launch({1}, {1025}, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch({0}, {32}, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch({1}, {32}, 100 << 10) == cudaErrorInvalidValue);
  CUDA_OK(cudaFuncSetAttribute(reinterpret_cast<const void*>(silent_stub),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  CUDA_OK(launch({1}, {32}, 100 << 10));
  CHECK(cudaLaunchKernel(&module, dim3{1}, dim3{1}, nullptr, 0, stream) ==
        cudaErrorInvalidDeviceFunction);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("launch configurations are popped in the reverse order of the pushes") {
  const Stream stream;
  CHECK(__cudaPushCallConfiguration(dim3{1}, dim3{2}, 3, stream) == 0);
  CHECK(__cudaPushCallConfiguration(dim3{4}, dim3{5}, 6, nullptr) == 0);
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t found = nullptr;
  CUDA_OK(__cudaPopCallConfiguration(&grid, &block, &shared, &found));
  CHECK((grid.x == 4 && block.x == 5 && shared == 6 && found == nullptr));
  CUDA_OK(__cudaPopCallConfiguration(&grid, &block, &shared, &found));
  CHECK((grid.x == 1 && block.x == 2 && shared == 3 && found == stream));
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &found) ==
        cudaErrorMissingConfiguration);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a device variable has memory of its own on each GPU") {
  const Module module;
  long long value = 77;
  CUDA_OK(cudaMemcpyToSymbol(counter_shadow, &value, sizeof value, 0, cudaMemcpyHostToDevice));
  CUDA_OK(cudaSetDevice(1));
  value = -1;
  CUDA_OK(cudaMemcpyFromSymbol(&value, counter_shadow, sizeof value, 0, cudaMemcpyDeviceToHost));
  CHECK(value == 0);
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaMemcpyFromSymbol(&value, counter_shadow, sizeof value, 0, cudaMemcpyDeviceToHost));
  CHECK(value == 77);
  CHECK(cudaMemcpyToSymbol(counter_shadow, &value, sizeof value, 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyToSymbol(&value, &value, sizeof value, 0, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidSymbol);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("occupancy falls as blocks get larger, and is 0 for blocks that cannot be launched") {
  const Module module;
  const auto* const kernel = reinterpret_cast<const void*>(silent_stub);
  int last = 1 << 20;
  for (const int threads : {32, 64, 128, 512, 1024, 1025}) {
    int blocks = -1;
    CUDA_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
    CHECK(blocks <= last);
    CHECK(blocks * threads <= 2048);
    CHECK((blocks > 0) == (threads <= 1024));
    last = blocks;
  }
  cudaFuncAttributes all{};
  CUDA_OK(cudaFuncGetAttributes(&all, kernel));
  CHECK(all.maxThreadsPerBlock == 1024);
}

TEST_CASE("an implementation with a pattern of the readable name is used") {
  const Module module;
  const Stream stream;
  const DeviceBlock block{sizeof(int)};
  CUDA_OK(launch_fill(reinterpret_cast<int*>(block.get()), 41, 0, 0, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(integers(block) == std::vector<int>{41});
}

TEST_CASE("a kernel takes the time or the work that its implementation declares") {
  const Module module;
  CHECK(time_of_fill(5'000'000, 0) >= 5e6 * 0.999);
  CHECK(time_of_fill(0, 2e12) >= 2e7);  // no profile has more than 100 TFLOPS in FP32
}

TEST_CASE("kernels that take the whole machine take turns") {
  const Module module;
  const Stream streams[2];
  const DeviceBlock block{2 * sizeof(int)};
  auto* const to = reinterpret_cast<int*>(block.get());
  const Event begin{cudaEventDefault}, ends[2]{Event{cudaEventDefault}, Event{cudaEventDefault}};
  CUDA_OK(cudaEventRecord(begin, streams[0]));
  CUDA_OK(cudaStreamWaitEvent(streams[1], begin, 0));
  for (int i = 0; i < 2; ++i) {
    CUDA_OK(launch_fill(to + i, i, 5'000'000, 1, streams[i]));
    CUDA_OK(cudaEventRecord(ends[i], streams[i]));
  }
  CUDA_OK(cudaDeviceSynchronize());
  float last = 0;
  for (const Event& end : ends) {
    float milliseconds = 0;
    CUDA_OK(cudaEventElapsedTime(&milliseconds, begin, end));
    last = std::max(last, milliseconds);
  }
  CHECK(last >= 9.99F);
}

TEST_CASE("the runtime lists the registered kernels, and which have an implementation") {
  const Module module;
  std::map<std::string, bool> found;
  virtual_cuda().each_kernel(
      [](const MillraceRegistered* kernel, void* data) {
        (*static_cast<std::map<std::string, bool>*>(data))[kernel->readable] =
            kernel->computes != 0;
      },
      &found);
  CHECK(found.at("add(int*, int, unsigned long)"));
  CHECK(found.at("void other::fill<int>(int*, int, long long, double)"));
  CHECK_FALSE(found.at("silent()"));
}

TEST_CASE("a kernel node of cudaGraphAddNode computes and keeps its attributes") {
  const Module module;
  const Stream stream;
  const DeviceBlock block{16 * sizeof(int)};
  CUDA_OK(cudaMemset(block.get(), 0, block.bytes()));
  CUDA_OK(cudaDeviceSynchronize());
  auto* to = reinterpret_cast<int*>(block.get());
  int value = 4;
  std::size_t count = 16;
  void* arguments[] = {&to, &value, &count};
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeKernel;
  parameters.kernel.func = reinterpret_cast<void*>(add_stub);
  parameters.kernel.gridDim = dim3{1};
  parameters.kernel.blockDim = dim3{1};
  parameters.kernel.kernelParams = arguments;
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t nodes[2] = {};
  CUDA_OK(cudaGraphAddNode(&nodes[0], graph, nullptr, nullptr, 0, &parameters));
  value = 5;
  CUDA_OK(cudaGraphAddNode(&nodes[1], graph, &nodes[0], nullptr, 1, &parameters));

  // The value of cudaLaunchAttributePriority is an int.
  constexpr int kPriority = 8;
  alignas(8) char set[64] = {3};
  alignas(8) char found[64] = {};
  DRIVER_OK("cuGraphKernelNodeSetAttribute", nodes[0], kPriority, static_cast<const void*>(set));
  DRIVER_OK("cuGraphKernelNodeCopyAttributes", nodes[1], nodes[0]);
  DRIVER_OK("cuGraphKernelNodeGetAttribute", nodes[1], kPriority, static_cast<void*>(found));
  CHECK(found[0] == 3);
  CHECK(driver("cuGraphKernelNodeGetAttribute", nodes[1], 99, static_cast<void*>(found)) ==
        kInvalidValue);
  cudaGraphNode_t empty = nullptr;
  CUDA_OK(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
  CHECK(driver("cuGraphKernelNodeGetAttribute", empty, kPriority, static_cast<void*>(found)) ==
        kInvalidValue);

  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  int sum = 0;
  CUDA_OK(cudaMemcpy(&sum, to, sizeof sum, cudaMemcpyDeviceToHost));
  CHECK(sum == 9);
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}
