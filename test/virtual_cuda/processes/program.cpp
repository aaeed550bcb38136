// Small programs that know nothing of Millrace, one per name, for tests of whole processes.

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "millrace/virtual_cuda.h"
#include "test/support/forked.hpp"
#include "test/virtual_cuda/cuda.hpp"

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp);
}

namespace {

using forked::exit_code_of_child;

void expect(cudaError_t found, cudaError_t expected, const char* what) {
  if (found == expected) return;
  std::fprintf(stderr, "%s gave %s in place of %s\n", what, cudaGetErrorName(found),
               cudaGetErrorName(expected));
  std::_Exit(9);
}

void* allocate() {
  void* block = nullptr;
  expect(cudaMalloc(&block, 4096), cudaSuccess, "cudaMalloc");
  return block;
}

int try_malloc() {
  void* block = nullptr;
  return cudaMalloc(&block, 64);
}

int fork_after_first_call() {
  allocate();
  if (exit_code_of_child(try_malloc) != cudaErrorInitializationError) return 1;
  allocate();  // the parent continues
  return 0;
}

int fork_before_first_call() {
  if (exit_code_of_child(try_malloc) != cudaSuccess) return 1;
  allocate();
  return 0;
}

int exit_in_a_host_function() {
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  // Another thread exits at the same time, so the results of these calls depend on its progress.
  static_cast<void>(cudaLaunchHostFunc(
      stream, [](void*) { std::exit(3); }, nullptr));
  static_cast<void>(cudaStreamSynchronize(stream));
  sleep(60);
  return 1;
}

int exit_with_pending_work() {
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  expect(cudaMemsetAsync(allocate(), 1, 4096, stream), cudaSuccess, "cudaMemsetAsync");
  return 0;
}

/** A static object that is constructed before CUDA, so it is destroyed after CUDA. */
struct Late {
  void* block = nullptr;
  ~Late() {
    if (block != nullptr) expect(cudaFree(block), cudaErrorCudartUnloading, "a late cudaFree");
  }
} late;

int free_in_a_late_destructor() {
  late.block = allocate();
  return 0;
}

/** An object that is constructed after CUDA, so it is destroyed before CUDA. */
struct Early {
  void* block = allocate();
  ~Early() { expect(cudaFree(block), cudaSuccess, "an early cudaFree"); }
};

int free_in_an_early_destructor() {
  allocate();
  static Early early;
  return 0;
}

int call_what_is_refused() {
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  int value = 0;
  for (int i = 0; i < 2; ++i)
    expect(cudaDeviceGetNvSciSyncAttributes(&value, 0, 1), cudaErrorNotSupported,
           "cudaDeviceGetNvSciSyncAttributes");
  expect(cudaGetLastError(), cudaErrorNotSupported, "cudaGetLastError");
  return 0;
}

/// Descriptions of resources have 144 bytes in CUDA 13 and 64 in CUDA 12.
int describe_a_texture() {
  int version = 0;
  expect(cudaRuntimeGetVersion(&version), cudaSuccess, "cudaRuntimeGetVersion");
  const std::size_t bytes = version < 13000 ? 64 : 144;
  cudaResourceDesc resource;
  std::memset(&resource, 0x5a, sizeof resource);  // the bytes after the description do not matter
  std::memset(&resource, 0, bytes);
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = allocate();
  resource.res.linear.desc.x = 8;
  resource.res.linear.desc.f = cudaChannelFormatKindUnsigned;
  resource.res.linear.sizeInBytes = 4096;
  const cudaTextureDesc texture{};
  cudaTextureObject_t object = 0;
  expect(cudaCreateTextureObject(&object, &resource, &texture, nullptr), cudaSuccess,
         "cudaCreateTextureObject");
  unsigned char found[sizeof resource];
  std::memset(found, 0x5a, sizeof found);
  expect(cudaGetTextureObjectResourceDesc(reinterpret_cast<cudaResourceDesc*>(found), object),
         cudaSuccess, "cudaGetTextureObjectResourceDesc");
  return std::memcmp(found, &resource, sizeof found) == 0 ? 0 : 1;
}

int touch_device_memory() { return *static_cast<volatile char*>(allocate()); }

/** A copy that is not ordered after the fill on another stream. Prints what was copied. */
int race_and_end_with(int code) {
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams)
    expect(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess, "a stream");
  void* const block = allocate();
  void* seen = nullptr;
  expect(cudaMallocHost(&seen, 1), cudaSuccess, "cudaMallocHost");
  expect(cudaMemset(block, 'a', 1), cudaSuccess, "cudaMemset");
  expect(cudaDeviceSynchronize(), cudaSuccess, "cudaDeviceSynchronize");
  expect(cudaMemsetAsync(block, 'b', 1, streams[0]), cudaSuccess, "cudaMemsetAsync");
  expect(cudaMemcpyAsync(seen, block, 1, cudaMemcpyDeviceToHost, streams[1]), cudaSuccess,
         "cudaMemcpyAsync");
  expect(cudaDeviceSynchronize(), cudaSuccess, "cudaDeviceSynchronize");
  std::printf("%c\n", *static_cast<char*>(seen));
  return code;
}
int race() { return race_and_end_with(0); }
int race_and_fail() { return race_and_end_with(7); }

/** A child that makes no call ends with its own code, and so does its parent. */
int race_in_a_parent() {
  static_cast<void>(race());
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) return 0;
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 5 : 1;
}

/**
 * Prints the time of a copy of 64 MiB from pinned memory to the GPU. The profile gives the time.
 */
int time_of_a_copy() {
  constexpr std::size_t kBytes = std::size_t{1} << 26;
  cudaEvent_t events[2] = {};
  for (cudaEvent_t& event : events) expect(cudaEventCreate(&event), cudaSuccess, "cudaEventCreate");
  void* block = nullptr;
  void* source = nullptr;
  expect(cudaMalloc(&block, kBytes), cudaSuccess, "cudaMalloc");
  expect(cudaMallocHost(&source, kBytes), cudaSuccess, "cudaMallocHost");
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  expect(cudaEventRecord(events[0], stream), cudaSuccess, "cudaEventRecord");
  expect(cudaMemcpyAsync(block, source, kBytes, cudaMemcpyHostToDevice, stream), cudaSuccess,
         "cudaMemcpyAsync");
  expect(cudaEventRecord(events[1], stream), cudaSuccess, "cudaEventRecord");
  expect(cudaEventSynchronize(events[1]), cudaSuccess, "cudaEventSynchronize");
  float milliseconds = 0;
  expect(cudaEventElapsedTime(&milliseconds, events[0], events[1]), cudaSuccess, "elapsed");
  std::printf("%.6f\n", static_cast<double>(milliseconds));
  return 0;
}

int use_a_pool() {
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  void* block = nullptr;
  expect(cudaMallocAsync(&block, std::size_t{3} << 20, stream), cudaSuccess, "cudaMallocAsync");
  expect(cudaFreeAsync(block, stream), cudaSuccess, "cudaFreeAsync");
  expect(cudaStreamSynchronize(stream), cudaSuccess, "cudaStreamSynchronize");
  return 0;
}

template <typename Function>
Function* look_up(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void* const function = handle == nullptr ? nullptr : dlsym(handle, name);
  if (function != nullptr) return reinterpret_cast<Function*>(function);
  std::fprintf(stderr, "%s of %s: %s\n", name, library, dlerror());
  std::_Exit(9);
}

/** The runtimes of CUDA 12 and CUDA 13 and the driver in one process. */
int load_several_libraries() {
  const char* const runtime_12 = std::getenv("MILLRACE_TEST_CUDART_12");
  void* block = nullptr;
  auto* const malloc_12 = look_up<cudaError_t(void**, std::size_t)>(runtime_12, "cudaMalloc");
  expect(malloc_12(&block, 4096), cudaSuccess, "cudaMalloc of CUDA 12");
  cudaStream_t stream = nullptr;
  auto* const create_12 = look_up<cudaError_t(cudaStream_t*)>(runtime_12, "cudaStreamCreate");
  expect(create_12(&stream), cudaSuccess, "cudaStreamCreate of CUDA 12");
  auto* const fill = look_up<int(unsigned long long, unsigned char, std::size_t, cudaStream_t)>(
      "libcuda.so.1", "cuMemsetD8Async");
  if (fill(reinterpret_cast<unsigned long long>(block), 'x', 4096, stream) != 0) return 1;
  char seen = 0;
  expect(cudaStreamSynchronize(stream), cudaSuccess, "cudaStreamSynchronize");
  expect(cudaMemcpy(&seen, block, 1, cudaMemcpyDeviceToHost), cudaSuccess, "cudaMemcpy");
  expect(cudaFree(block), cudaSuccess, "cudaFree");
  return seen == 'x' ? 0 : 1;
}

/** Before cuInit the driver only gives versions and addresses. */
int call_the_driver_first() {
  int value = 0;
  const auto version = look_up<int(int*)>("libcuda.so.1", "cuDriverGetVersion");
  const auto count = look_up<int(int*)>("libcuda.so.1", "cuDeviceGetCount");
  const auto init = look_up<int(unsigned)>("libcuda.so.1", "cuInit");
  if (version(&value) != 0 || value != 13000) return 1;
  if (count(&value) != cudaErrorInitializationError) return 2;
  if (init(1) != cudaErrorInvalidValue || init(0) != 0) return 3;
  if (count(&value) != 0 || value != 2) return 4;
  const auto texture = look_up<int()>("libcuda.so.1", "cuTexRefCreate");
  for (int i = 0; i < 2; ++i)
    if (texture() != cudaErrorNotSupported) return 5;
  return 0;
}

const MillraceVirtualCuda& virtual_cuda() {
  static const MillraceVirtualCuda* const found = [] {
    const void* table = nullptr;
    const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
    expect(cudaGetExportTable(&table, &id), cudaSuccess, "cudaGetExportTable");
    return static_cast<const MillraceVirtualCuda*>(table);
  }();
  return *found;
}

// The kernel fails. Its launch does not report that, and every later call does.
int lose_the_gpu() {
  static char stub;
  const MillraceKernel kernel{
      "wild", nullptr, 0,
      [](const MillraceLaunch*) { virtual_cuda().lose(cudaErrorIllegalAddress); }, nullptr};
  virtual_cuda().add_kernel(&kernel);
  void** const module = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterFunction(module, &stub, nullptr, "wild", -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  void* const block = allocate();
  expect(cudaLaunchKernel(&stub, dim3{1}, dim3{1}, nullptr, 0, stream), cudaSuccess, "the launch");
  expect(cudaStreamSynchronize(stream), cudaErrorIllegalAddress, "cudaStreamSynchronize");
  for (int i = 0; i < 2; ++i)
    expect(cudaGetLastError(), cudaErrorIllegalAddress, "cudaGetLastError");
  expect(cudaFree(block), cudaErrorIllegalAddress, "cudaFree");
  expect(cudaLaunchKernel(&stub, dim3{1}, dim3{1}, nullptr, 0, stream), cudaErrorIllegalAddress,
         "a later launch");
  cudaError_t elsewhere = cudaSuccess;
  std::thread{[&] { elsewhere = cudaDeviceSynchronize(); }}.join();
  expect(elsewhere, cudaErrorIllegalAddress, "a call of another thread");
  return 0;
}

double milliseconds_of(const void* kernel, void** arguments, cudaEvent_t (&events)[2]) {
  expect(cudaEventRecord(events[0], nullptr), cudaSuccess, "cudaEventRecord");
  expect(cudaLaunchKernel(kernel, dim3{1}, dim3{1}, arguments, 0, nullptr), cudaSuccess,
         "cudaLaunchKernel");
  expect(cudaEventRecord(events[1], nullptr), cudaSuccess, "cudaEventRecord");
  expect(cudaEventSynchronize(events[1]), cudaSuccess, "cudaEventSynchronize");
  float milliseconds = 0;
  expect(cudaEventElapsedTime(&milliseconds, events[0], events[1]), cudaSuccess,
         "cudaEventElapsedTime");
  return static_cast<double>(milliseconds);
}

// Prints the times of two kernels without host implementations, in microseconds.
int times_of_kernels() {
  static char stubs[2];
  void** const module = __cudaRegisterFatBinary(nullptr);
  const char* const names[] = {"_ZN3app4gemmIfEEvPT_", "_ZN3app4copyEPvPKvm"};
  cudaEvent_t events[2] = {};
  for (cudaEvent_t& event : events) expect(cudaEventCreate(&event), cudaSuccess, "cudaEventCreate");
  for (int i = 0; i < 2; ++i) {
    __cudaRegisterFunction(module, &stubs[i], nullptr, names[i], -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
    std::printf("%.0f\n", milliseconds_of(&stubs[i], nullptr, events) * 1000);
  }
  return 0;
}

// Prints the times of kernels that only a table of costs knows, in nanoseconds. Their pointers are
// to two blocks, twice into one block, to a block of a pool, and in a class; the last kernel has no
// signature.
int times_by_bytes() {
  constexpr std::size_t kBytes = std::size_t{480} << 20;
  struct {
    const char* name;
    void* first;
    void* second;
    char stub;
  } kernels[] = {
      {"_ZN3app5scaleEPfPKf", nullptr, nullptr, 0},
      {"_ZN3app5shiftEPfPKf", nullptr, nullptr, 0},
      {"_ZN3app5clearEPv", nullptr, nullptr, 0},
      {"_ZN3app5applyENS_5ViewE", nullptr, nullptr, 0},
      {"plain", nullptr, nullptr, 0},
  };
  char* blocks[2] = {};
  for (char*& block : blocks)
    expect(cudaMalloc(reinterpret_cast<void**>(&block), kBytes), cudaSuccess, "cudaMalloc");
  kernels[0].first = blocks[0];
  kernels[0].second = blocks[1];
  kernels[1].first = blocks[0] + kBytes / 2;
  kernels[1].second = blocks[0] + kBytes / 4 * 3;
  expect(cudaMallocAsync(&kernels[2].first, kBytes / 2, nullptr), cudaSuccess, "cudaMallocAsync");
  kernels[3].first = kernels[4].first = blocks[0];
  expect(cudaDeviceSynchronize(), cudaSuccess, "cudaDeviceSynchronize");
  void** const module = __cudaRegisterFatBinary(nullptr);
  cudaEvent_t events[2] = {};
  for (cudaEvent_t& event : events) expect(cudaEventCreate(&event), cudaSuccess, "cudaEventCreate");
  for (auto& kernel : kernels) {
    __cudaRegisterFunction(module, &kernel.stub, nullptr, kernel.name, -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    void* arguments[] = {&kernel.first, &kernel.second};
    std::printf("%.0f\n", milliseconds_of(&kernel.stub, arguments, events) * 1e6);
  }
  return 0;
}

int print_chip() {
  int value = 0;
  for (const cudaDeviceAttr attribute :
       {cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor,
        cudaDevAttrMultiProcessorCount, cudaDevAttrL2CacheSize,
        cudaDevAttrMaxSharedMemoryPerMultiprocessor, cudaDevAttrGlobalMemoryBusWidth,
        cudaDevAttrClockRate, cudaDevAttrMemoryClockRate}) {
    expect(cudaDeviceGetAttribute(&value, attribute, 0), cudaSuccess, "cudaDeviceGetAttribute");
    std::printf("%d ", value);
  }
  return 0;
}

int print_error_of_first_call() {
  int count = 0;
  std::printf("%s\n", cudaGetErrorName(cudaGetDeviceCount(&count)));
  return 0;
}

int add_a_memory_operation() {
  cudaGraph_t graph = nullptr;
  expect(cudaGraphCreate(&graph, 0), cudaSuccess, "cudaGraphCreate");
  cudaGraphNodeParams parameters = {};
  parameters.type = static_cast<cudaGraphNodeType>(12);  // CU_GRAPH_NODE_TYPE_BATCH_MEM_OP
  cudaGraphNode_t node = nullptr;
  expect(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters), cudaErrorNotSupported,
         "cudaGraphAddNode");
  return 0;
}

struct Loop {
  cudaGraph_t graph = nullptr;
  cudaGraph_t body = nullptr;
  cudaGraphConditionalHandle condition = 0;
};

Loop make_loop() {
  Loop loop;
  expect(cudaGraphCreate(&loop.graph, 0), cudaSuccess, "cudaGraphCreate");
  expect(
      cudaGraphConditionalHandleCreate(&loop.condition, loop.graph, 1, cudaGraphCondAssignDefault),
      cudaSuccess, "cudaGraphConditionalHandleCreate");
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = loop.condition;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  expect(cudaGraphAddNode(&node, loop.graph, nullptr, nullptr, 0, &parameters), cudaSuccess,
         "cudaGraphAddNode");
  loop.body = parameters.conditional.phGraph_out[0];
  return loop;
}

cudaGraphExec_t instantiate(const Loop& loop) {
  cudaGraphExec_t executable = nullptr;
  expect(cudaGraphInstantiate(&executable, loop.graph, 0), cudaSuccess, "cudaGraphInstantiate");
  return executable;
}

std::size_t host_bytes_in_pass[2];  // in pass 1,000 of a loop and in the last one

/** Adds a kernel to the body of the loop. The kernel clears the condition in this pass. */
cudaGraphNode_t add_last_pass(Loop& loop, unsigned pass) {
  static char stub;
  static constexpr std::size_t kArguments[] = {sizeof loop.condition, sizeof pass};
  const auto body = [](const MillraceLaunch* launch) {
    static unsigned passes = 0;
    if (++passes == 1000) host_bytes_in_pass[0] = mallinfo2().uordblks;
    if (passes != *static_cast<unsigned*>(launch->arguments[1])) return;
    host_bytes_in_pass[1] = mallinfo2().uordblks;
    virtual_cuda().set_conditional(*static_cast<unsigned long long*>(launch->arguments[0]), 0);
  };
  const MillraceKernel kernel{"last_pass", kArguments, 2, body, nullptr, nullptr};
  virtual_cuda().add_kernel(&kernel);
  __cudaRegisterFunction(__cudaRegisterFatBinary(nullptr), &stub, nullptr, "last_pass", -1, nullptr,
                         nullptr, nullptr, nullptr, nullptr);
  void* arguments[] = {&loop.condition, &pass};
  cudaKernelNodeParams parameters{};
  parameters.func = &stub;
  parameters.gridDim = parameters.blockDim = dim3{1};
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  expect(cudaGraphAddKernelNode(&node, loop.body, nullptr, 0, &parameters), cudaSuccess,
         "cudaGraphAddKernelNode");
  return node;
}

int expect_no_end(cudaGraphExec_t executable) {
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream), cudaSuccess, "cudaStreamCreate");
  expect(cudaGraphLaunch(executable, stream), cudaSuccess, "cudaGraphLaunch");
  expect(cudaStreamSynchronize(stream), cudaErrorLaunchTimeout, "cudaStreamSynchronize");
  expect(cudaGraphLaunch(executable, stream), cudaErrorLaunchTimeout, "a later launch");
  return 0;
}

int loop_without_a_kernel() { return expect_no_end(instantiate(make_loop())); }

int loop_with_a_disabled_kernel() {
  Loop loop = make_loop();
  const cudaGraphNode_t node = add_last_pass(loop, 1);
  const cudaGraphExec_t executable = instantiate(loop);
  expect(cudaGraphNodeSetEnabled(executable, node, 0), cudaSuccess, "cudaGraphNodeSetEnabled");
  return expect_no_end(executable);
}

int loop_that_ends_late() {
  Loop loop = make_loop();
  add_last_pass(loop, 120'000);
  const cudaGraphExec_t executable = instantiate(loop);
  expect(cudaGraphLaunch(executable, nullptr), cudaSuccess, "cudaGraphLaunch");
  expect(cudaDeviceSynchronize(), cudaSuccess, "cudaDeviceSynchronize");
  const auto [early, late] = host_bytes_in_pass;
  if (late < early + (1U << 20)) return 0;
  std::fprintf(stderr, "the loop took %zu bytes of host memory\n", late - early);
  return 1;
}

const std::map<std::string, int (*)()> kPrograms{
    {"fork_after_first_call", fork_after_first_call},
    {"fork_before_first_call", fork_before_first_call},
    {"exit_in_a_host_function", exit_in_a_host_function},
    {"exit_with_pending_work", exit_with_pending_work},
    {"free_in_a_late_destructor", free_in_a_late_destructor},
    {"free_in_an_early_destructor", free_in_an_early_destructor},
    {"call_what_is_refused", call_what_is_refused},
    {"describe_a_texture", describe_a_texture},
    {"touch_device_memory", touch_device_memory},
    {"race", race},
    {"race_and_fail", race_and_fail},
    {"race_in_a_parent", race_in_a_parent},
    {"time_of_a_copy", time_of_a_copy},
    {"use_a_pool", use_a_pool},
    {"load_several_libraries", load_several_libraries},
    {"call_the_driver_first", call_the_driver_first},
    {"lose_the_gpu", lose_the_gpu},
    {"add_a_memory_operation", add_a_memory_operation},
    {"loop_without_a_kernel", loop_without_a_kernel},
    {"loop_with_a_disabled_kernel", loop_with_a_disabled_kernel},
    {"loop_that_ends_late", loop_that_ends_late},
    {"times_of_kernels", times_of_kernels},
    {"times_by_bytes", times_by_bytes},
    {"print_chip", print_chip},
    {"print_error_of_first_call", print_error_of_first_call},
};

}  // namespace

int main(int argc, char** argv) {
  const auto entry = kPrograms.find(argc == 2 ? argv[1] : "");
  if (entry != kPrograms.end()) return entry->second();
  std::fprintf(stderr, "usage: virtual_cuda_program NAME\n");
  return 2;
}
