#include <algorithm>

#include "check/checker.hpp"
#include "engine/kernels.hpp"
#include "exports/transfer.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostRows = 65535;
constexpr unsigned kWarp = 32;
constexpr int kThreadsOfMultiprocessor = 2048;
constexpr int kBlocksOfMultiprocessor = 32;

bool fits(const dim3& grid, const dim3& block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return threads >= 1 && threads <= kMostThreads && block.z <= 64 && grid.x >= 1 && grid.y >= 1 &&
         grid.z >= 1 && grid.x <= 0x7fffffff && grid.y <= kMostRows && grid.z <= kMostRows;
}

cudaError_t launch(CUstream_st* stream, const Kernel* kernel, const dim3& grid, const dim3& block,
                   std::size_t shared_bytes, void** arguments) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (!has_code(*kernel)) return cudaErrorNoKernelImageForDevice;
  if (!fits(grid, block)) return cudaErrorInvalidConfiguration;
  if (shared_bytes > static_cast<std::size_t>(kernel->max_dynamic_shared))
    return cudaErrorInvalidValue;
  const bool computes = kernel->host_kernel != nullptr;
  if (quick() && !computes && kernel->given_cost.none()) {
    kernel->note_uncomputed();
    return cudaSuccess;
  }
  KernelWork work;
  work.kernel = kernel;
  work.grid = grid;
  work.block = block;
  work.shared_bytes = shared_bytes;
  if (computes) {
    if (arguments == nullptr && !kernel->host_kernel->argument_bytes.empty())
      return cudaErrorInvalidValue;
    copy_arguments(work, arguments);
  }
  Lock lock = lock_engine();
  spend(lock, Call::launch);
  cost_bytes_of_pointers(work, arguments);
  if (Checker* const check = checker()) work.accesses = check->accesses_of_kernel(work, arguments);
  return submit(lock, *stream, std::move(work));
}

const Kernel* kernel_of(cudaKernel_t handle) { return reinterpret_cast<const Kernel*>(handle); }

template <typename Handle>
cudaError_t handle_of(Handle* handle, const void* function) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  Kernel* const kernel = find_kernel(function);
  *handle = reinterpret_cast<Handle>(kernel);
  return kernel == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

cudaError_t attributes(cudaFuncAttributes* all, const void* function) {
  if (all == nullptr) return cudaErrorInvalidValue;
  const Kernel* const kernel = find_kernel(function);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const std::optional<CodeVersions> versions = code_versions(*kernel);
  if (!versions) return cudaErrorNoKernelImageForDevice;
  *all = {};
  all->maxThreadsPerBlock = static_cast<int>(kMostThreads);
  all->numRegs = 32;
  all->ptxVersion = versions->ptx;
  all->binaryVersion = versions->binary;
  all->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared;
  all->preferredShmemCarveout = kernel->carveout;
  return cudaSuccess;
}

cudaError_t set_attribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  const auto most = runtime().current_gpu().properties().sharedMemPerBlockOptin;
  const Lock lock = lock_engine();
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || static_cast<std::size_t>(value) > most) return cudaErrorInvalidValue;
      kernel->max_dynamic_shared = value;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      kernel->carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t occupancy(int* blocks, const void* function, int block_size, std::size_t shared) {
  if (blocks == nullptr || block_size <= 0) return cudaErrorInvalidValue;
  if (find_kernel(function) == nullptr) return cudaErrorInvalidDeviceFunction;
  *blocks = 0;
  if (static_cast<unsigned>(block_size) > kMostThreads) return cudaSuccess;
  const auto threads =
      static_cast<int>((static_cast<unsigned>(block_size) + kWarp - 1) / kWarp * kWarp);
  const cudaDeviceProp all = runtime().current_gpu().properties();
  const std::size_t each = shared + all.reservedSharedMemPerBlock;
  const auto by_shared = static_cast<int>(all.sharedMemPerMultiprocessor / each);
  *blocks = std::min({kThreadsOfMultiprocessor / threads, kBlocksOfMultiprocessor, by_shared});
  return cudaSuccess;
}

cudaError_t available_shared(std::size_t* bytes, const void* function, int blocks, int block_size) {
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return cudaErrorInvalidValue;
  if (find_kernel(function) == nullptr) return cudaErrorInvalidDeviceFunction;
  const cudaDeviceProp all = runtime().current_gpu().properties();
  const std::size_t each = all.sharedMemPerMultiprocessor / static_cast<std::size_t>(blocks);
  *bytes =
      std::min(each - std::min(each, all.reservedSharedMemPerBlock), all.sharedMemPerBlockOptin);
  return cudaSuccess;
}

void make_managed_variables() {
  for (const Variable* const variable : managed_variables()) {
    void* address = nullptr;
    if (*variable->managed_pointer == nullptr)
      static_cast<void>(symbol_address(variable->managed_pointer, 0, 0, &address));
  }
}

}  // namespace

// Functions for the compiler's host code

MILLRACE_EXPORT void** __cudaRegisterFatBinary(void* binary) { return register_module(binary); }
MILLRACE_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
MILLRACE_EXPORT void __cudaUnregisterFatBinary(void** module) { unregister_module(module); }
MILLRACE_EXPORT void __cudaRegisterFunction(void** module, const char* host_function, char*,
                                            const char* name, int, void*, void*, void*, void*,
                                            int*) {
  register_kernel(module, host_function, name);
}
MILLRACE_EXPORT void __cudaRegisterVar(void**, char* host_variable, char*, const char* name, int,
                                       std::size_t bytes, int, int) {
  register_variable(host_variable, name, bytes, nullptr);
}
MILLRACE_EXPORT void __cudaRegisterManagedVar(void**, void** host_variable, char*, const char* name,
                                              int, std::size_t bytes, int, int) {
  register_variable(host_variable, name, bytes, host_variable);
}
MILLRACE_EXPORT char __cudaInitModule(void**) {
  call(Function::__cudaInitModule, [](Thread&) {
    make_managed_variables();
    return cudaSuccess;
  });
  return 1;
}
MILLRACE_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                     std::size_t shared_bytes, void* stream) {
  return call(Function::__cudaPushCallConfiguration, [&](Thread& thread) {
    thread.configurations.push_back({grid, block, shared_bytes, static_cast<cudaStream_t>(stream)});
    return cudaSuccess;
  });
}
MILLRACE_CALL(__cudaPopCallConfiguration,
              (dim3 * grid, dim3* block, std::size_t* shared_bytes, void* stream),
              if (thread.configurations.empty()) return cudaErrorMissingConfiguration;
              const CallConfiguration last = thread.configurations.back();
              thread.configurations.pop_back(); *grid = last.grid; *block = last.block;
              *shared_bytes = last.shared_bytes; *static_cast<cudaStream_t*>(stream) = last.stream;
              return cudaSuccess;)
MILLRACE_CALL(__cudaGetKernel, (cudaKernel_t * kernel, const void* function),
              return handle_of(kernel, function);)
MILLRACE_TWINS(__cudaLaunchKernel, ptsz,
               (cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                std::size_t shared_bytes, cudaStream_t stream),
               return launch(find_stream(stream, meaning), kernel_of(kernel), grid, block,
                             shared_bytes, arguments);)

// Launches

MILLRACE_TWINS(cudaLaunchKernel, ptsz,
               (const void* function, dim3 grid, dim3 block, void** arguments,
                std::size_t shared_bytes, cudaStream_t stream),
               return launch(find_stream(stream, meaning), find_kernel(function), grid, block,
                             shared_bytes, arguments);)
MILLRACE_TWINS(cudaLaunchCooperativeKernel, ptsz,
               (const void* function, dim3 grid, dim3 block, void** arguments,
                std::size_t shared_bytes, cudaStream_t stream),
               return launch(find_stream(stream, meaning), find_kernel(function), grid, block,
                             shared_bytes, arguments);)
MILLRACE_TWINS(cudaLaunchKernelExC, ptsz,
               (const cudaLaunchConfig_t* config, const void* function, void** arguments),
               if (config == nullptr) return cudaErrorInvalidValue;
               return launch(find_stream(config->stream, meaning), find_kernel(function),
                             config->gridDim, config->blockDim, config->dynamicSmemBytes,
                             arguments);)

// Properties of kernels

MILLRACE_CALL(cudaFuncGetAttributes, (cudaFuncAttributes * all, const void* function),
              return attributes(all, function);)
MILLRACE_CALL(cudaFuncSetAttribute, (const void* function, cudaFuncAttribute attribute, int value),
              return set_attribute(find_kernel(function), attribute, value);)
MILLRACE_CALL(cudaFuncGetName, (const char** name, const void* function),
              const Kernel* const kernel = find_kernel(function);
              if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
              if (name == nullptr) return cudaErrorInvalidValue; *name = kernel->name.c_str();
              return cudaSuccess;)
MILLRACE_CALL(cudaGetFuncBySymbol, (cudaFunction_t * handle, const void* function),
              return handle_of(handle, function);)
MILLRACE_CALL(cudaGetKernel, (cudaKernel_t * handle, const void* function),
              return handle_of(handle, function);)
MILLRACE_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
              (int* blocks, const void* function, int block_size, std::size_t shared_bytes),
              return occupancy(blocks, function, block_size, shared_bytes);)
MILLRACE_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
              (int* blocks, const void* function, int block_size, std::size_t shared_bytes,
               unsigned),
              return occupancy(blocks, function, block_size, shared_bytes);)
MILLRACE_CALL(cudaOccupancyAvailableDynamicSMemPerBlock,
              (std::size_t * bytes, const void* function, int blocks, int block_size),
              return available_shared(bytes, function, blocks, block_size);)
