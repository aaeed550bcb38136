#include <cstdlib>
#include <cstring>
#include <utility>

#include "test/gpu_calls/fake/state.hpp"

// CUDA's runtime. A function that is not here is that of the library, which fails without a driver.

using namespace millrace::test::fake;

namespace {

constexpr std::size_t kMemory = std::size_t{8} << 30;

thread_local cudaError_t last_error = cudaSuccess;

cudaError_t with_context(const char* name, const void* object = nullptr, long long value = 0) {
  current_device();
  return runtime(name, object, value);
}

cudaError_t query(const char* name, const void* object) {
  if (const cudaError_t error = with_context(name, object); error != cudaSuccess) return error;
  const std::lock_guard lock{state().mutex};
  return state().busy ? last_error = cudaErrorNotReady : cudaSuccess;
}

cudaError_t wait(const char* name, const void* object, long long value = 0) {
  set_busy(false);
  return with_context(name, object, value);
}

cudaError_t allocate(const char* name, void** address, std::size_t bytes) {
  if (const cudaError_t error = with_context(name); error != cudaSuccess) return error;
  *address = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(*address, 0, bytes);
  return cudaSuccess;
}

cudaError_t release(const char* name, void* address) {
  const cudaError_t error = with_context(name, address);
  if (error == cudaSuccess) std::free(address);
  return error;
}

cudaError_t create_stream(cudaStream_t* stream, unsigned flags) {
  const cudaError_t error = with_context("cudaStreamCreate");
  if (error != cudaSuccess) return error;
  const int device = current_device();
  State& all = state();
  const std::lock_guard lock{all.mutex};
  auto* made = static_cast<Stream*>(nullptr);
  if (all.dead_streams.empty()) {
    made = new Stream;
  } else {
    made = all.dead_streams.back();
    all.dead_streams.pop_back();
  }
  *made = {device, flags, ++all.stream_ids};
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}

bool is_default(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

}  // namespace

namespace millrace::test::fake {

cudaError_t runtime(const std::string& name, const void* object, long long value) {
  const auto error = static_cast<cudaError_t>(called(name, object, value));
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace millrace::test::fake

extern "C" {

// Devices

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_context() < 0 ? 0 : device_of_context();
  return runtime("cudaGetDevice");
}
cudaError_t cudaSetDevice(int device) {
  set_context(device);
  return runtime("cudaSetDevice", nullptr, device);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "a stand-in");
  properties->totalGlobalMem = kMemory;
  properties->major = 9;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 227 << 10;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = state().has_pools ? 1 : 0;
      break;
    default:
      *value = 1024;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* bus, int, int device) {
  std::strcpy(bus, device == 0 ? "0000:00:00.0" : "0000:01:00.0");
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int, int) {
  *possible = 1;
  return runtime("cudaDeviceCanAccessPeer");
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return runtime("cudaDeviceEnablePeerAccess",
                 reinterpret_cast<const void*>(static_cast<std::uintptr_t>(current_device())),
                 peer);
}
cudaError_t cudaDeviceSynchronize() { return wait("cudaDeviceSynchronize", nullptr); }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }

// Errors

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

// Memory

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return allocate("cudaMalloc", address, bytes);
}
cudaError_t cudaFree(void* address) { return release("cudaFree", address); }
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned) {
  return allocate("cudaHostAlloc", address, bytes);
}
cudaError_t cudaFreeHost(void* address) { return release("cudaFreeHost", address); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = kMemory;
  return with_context("cudaMemGetInfo");
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  const cudaError_t error = with_context("cudaMemcpyAsync", stream);
  if (error == cudaSuccess) std::memmove(to, from, bytes);
  return error;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t error = with_context("cudaMemsetAsync", stream);
  if (error == cudaSuccess) std::memset(to, value, bytes);
  return error;
}

// The driver's pool

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(new int);
  return with_context("cudaMemPoolCreate");
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete reinterpret_cast<int*>(pool);
  return with_context("cudaMemPoolDestroy");
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, std::size_t) {
  return with_context("cudaMemPoolSetAccess", pool, access->location.id);
}

// Streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return create_stream(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = with_context("cudaStreamDestroy", stream);
  const std::lock_guard lock{state().mutex};
  state().dead_streams.push_back(reinterpret_cast<Stream*>(stream));
  return error;
}
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = is_default(stream) ? (stream == cudaStreamPerThread ? 2 : 1)
                           : reinterpret_cast<Stream*>(stream)->id;
  return runtime("cudaStreamGetId", stream);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  *flags = is_default(stream) ? cudaStreamNonBlocking  // the flags hide that it blocks
                              : reinterpret_cast<Stream*>(stream)->flags;
  return runtime("cudaStreamGetFlags", stream);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return query("cudaStreamQuery", stream); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return wait("cudaStreamSynchronize", stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return with_context("cudaStreamWaitEvent", stream,
                      static_cast<long long>(reinterpret_cast<std::uintptr_t>(event)));
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  const cudaError_t error = with_context("cudaLaunchHostFunc", stream);
  if (error == cudaSuccess) function(data);
  return error;
}

// Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const cudaError_t error = with_context("cudaEventCreate", nullptr, flags);
  if (error != cudaSuccess) return error;
  *event = reinterpret_cast<cudaEvent_t>(new Event{flags, 0});
  const std::lock_guard lock{state().mutex};
  ++state().events;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  const std::lock_guard lock{state().mutex};
  --state().events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  reinterpret_cast<Event*>(event)->time = state().time;
  return with_context("cudaEventRecord", stream,
                      static_cast<long long>(reinterpret_cast<std::uintptr_t>(event)));
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return query("cudaEventQuery", event); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return wait("cudaEventSynchronize", event, reinterpret_cast<Event*>(event)->flags);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const auto* const first = reinterpret_cast<Event*>(from);
  const auto* const last = reinterpret_cast<Event*>(to);
  *milliseconds = static_cast<float>(static_cast<double>(last->time - first->time) / 1e6);
  return cudaSuccess;
}

// Kernels

cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return with_context("launch", stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void*, void**) {
  return with_context("launch", config->stream);
}
#if CUDART_VERSION >= 13000
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void*) {
  *kernel = nullptr;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t stream) {
  return with_context("launch", stream);
}
#endif
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxThreadsPerBlock = 1024;
  return with_context("cudaFuncGetAttributes");
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return with_context("cudaFuncSetAttribute", nullptr, value);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   std::size_t, unsigned) {
  *blocks = 2;
  return with_context("cudaOccupancy");
}

}  // extern "C"
