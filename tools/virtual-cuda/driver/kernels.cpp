// Modules, libraries, functions and launches. Machine code is not read, so a module has a function
// of every name that a program looks up. A launch computes if a host implementation has that name.
// CUmodule and CUlibrary are the runtime's module. CUfunction and CUkernel are its Kernel.

#include <algorithm>

#include "abi/functions.h"
#include "driver/contexts.hpp"
#include "exports/libraries.hpp"
#include "millrace/round_up.hpp"

using namespace millrace::virtual_cuda;

namespace {

template <typename Handle>
void** module_of(Handle handle) {
  return reinterpret_cast<void**>(handle);
}

template <typename Handle>
cudaError_t load(Handle* made, const void* code) {
  return load_module(reinterpret_cast<void***>(made), code);
}
template <typename Handle>
cudaError_t load_file(Handle* made, const char* name) {
  return load_module_file(reinterpret_cast<void***>(made), name);
}
template <typename Handle>
cudaError_t unload(Handle handle) {
  return unload_module(module_of(handle));
}
template <typename Function, typename Handle>
cudaError_t get_function(Function* found, Handle handle, const char* name) {
  return find_in_module(reinterpret_cast<Kernel**>(found), module_of(handle), name);
}

/** Calls `use` with the kernel of a handle. */
template <typename Handle, typename Use>
cudaError_t with_kernel(Handle handle, Use use) {
  Kernel* const kernel = find_kernel(handle);
  return kernel == nullptr ? cudaErrorInvalidResourceHandle : use(*kernel);
}

template <typename Handle>
cudaError_t attribute(int* value, CUfunction_attribute which, Handle handle) {
  if (value == nullptr) return cudaErrorInvalidValue;
  cudaFuncAttributes all{};
  const cudaError_t error = MILLRACE_AS(cudaFuncGetAttributes, &all, handle);
  if (error != cudaSuccess) return error;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = all.maxThreadsPerBlock;
      return cudaSuccess;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = all.numRegs;
      return cudaSuccess;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = all.ptxVersion;
      return cudaSuccess;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = all.binaryVersion;
      return cudaSuccess;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = all.maxDynamicSharedSizeBytes;
      return cudaSuccess;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = all.preferredShmemCarveout;
      return cudaSuccess;
    default:
      // Kernels here have no static memory, caches and clusters.
      *value = 0;
      return which >= CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK &&
                     which <= CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
                 ? cudaSuccess
                 : cudaErrorInvalidValue;
  }
}

/** The arguments of a launch, given one by one or packed in a buffer. */
class Arguments {
 public:
  Arguments(const Kernel& kernel, void** parameters, void** extra) : parameters_{parameters} {
    if (parameters != nullptr || extra == nullptr || kernel.host_kernel == nullptr) return;
    std::byte* buffer = nullptr;
    for (void** option = extra; *option != CU_LAUNCH_PARAM_END; option += 2)
      if (*option == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<std::byte*>(option[1]);
    if (buffer == nullptr) return;
    // Each argument is aligned to the largest power of two, up to 16, that divides its size.
    std::size_t offset = 0;
    for (const std::size_t bytes : kernel.host_kernel->argument_bytes) {
      std::size_t alignment = 1;
      while (alignment < 16 && bytes % (alignment * 2) == 0) alignment *= 2;
      offset = millrace::round_up(offset, alignment);
      unpacked_.push_back(buffer + offset);
      offset += bytes;
    }
    parameters_ = unpacked_.data();
  }

  [[nodiscard]] void** data() const { return parameters_; }

 private:
  std::vector<void*> unpacked_;
  void** parameters_;
};

cudaError_t launch(CUfunction function, const dim3& grid, const dim3& block, unsigned shared,
                   cudaStream_t stream, void** parameters, void** extra) {
  return with_kernel(function, [&](Kernel& kernel) {
    if (parameters != nullptr && extra != nullptr) return cudaErrorInvalidValue;
    const Arguments arguments{kernel, parameters, extra};
    return MILLRACE_AS(cudaLaunchKernel, function, grid, block, arguments.data(), shared, stream);
  });
}

cudaError_t launch(const CUlaunchConfig* config, CUfunction function, Default meaning,
                   void** parameters, void** extra) {
  if (config == nullptr) return cudaErrorInvalidValue;
  return launch(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                stream_of(config->hStream, meaning), parameters, extra);
}

/** The largest block size with the most threads on a multiprocessor, and a grid for all of them. */
cudaError_t potential_block_size(int* grid, int* block, CUfunction function,
                                 CUoccupancyB2DSize shared_of, std::size_t shared, int limit) {
  constexpr int kMostThreads = 1024;
  constexpr int kWarp = 32;
  if (grid == nullptr || block == nullptr) return cudaErrorInvalidValue;
  int most = 0;
  const int largest = limit > 0 ? std::min(limit, kMostThreads) : kMostThreads;
  for (int size = largest; size > 0;
       size = size % kWarp == 0 ? size - kWarp : size / kWarp * kWarp) {
    int blocks = 0;
    const cudaError_t error =
        MILLRACE_AS(cudaOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function, size,
                    shared_of == nullptr ? shared : shared_of(size));
    if (error != cudaSuccess) return error;
    if (blocks * size <= most) continue;
    most = blocks * size;
    *block = size;
    *grid = blocks * runtime().current_gpu().properties().multiProcessorCount;
  }
  return cudaSuccess;
}

}  // namespace

// Modules and libraries

MILLRACE_CONTEXT_CALL(cuModuleLoad, (CUmodule * made, const char* name),
                      return load_file(made, name);)
MILLRACE_CONTEXT_CALL(cuModuleLoadData, (CUmodule * made, const void* image),
                      return load(made, image);)
MILLRACE_CONTEXT_CALL(cuModuleLoadDataEx,
                      (CUmodule * made, const void* image, unsigned, int*, void**),
                      return load(made, image);)
MILLRACE_CONTEXT_CALL(cuModuleLoadFatBinary, (CUmodule * made, const void* image),
                      return load(made, image);)
MILLRACE_CONTEXT_CALL(cuModuleUnload, (CUmodule module), return unload(module);)
MILLRACE_DRIVER_CALL(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode),
                     if (mode == nullptr) return cudaErrorInvalidValue;
                     *mode = CU_MODULE_LAZY_LOADING; return cudaSuccess;)
MILLRACE_CONTEXT_CALL(cuModuleGetFunction, (CUfunction * found, CUmodule module, const char* name),
                      return get_function(found, module, name);)
MILLRACE_DRIVER_CALL(cuLibraryLoadData,
                     (CUlibrary * made, const void* code, int*, void**, unsigned, int*, void**,
                      unsigned),
                     return load(made, code);)
MILLRACE_DRIVER_CALL(cuLibraryLoadFromFile,
                     (CUlibrary * made, const char* name, int*, void**, unsigned, int*, void**,
                      unsigned),
                     return load_file(made, name);)
MILLRACE_DRIVER_CALL(cuLibraryUnload, (CUlibrary library), return unload(library);)
MILLRACE_DRIVER_CALL(cuLibraryGetKernel, (CUkernel * found, CUlibrary library, const char* name),
                     return get_function(found, library, name);)
MILLRACE_CONTEXT_CALL(cuLibraryGetModule, (CUmodule * found, CUlibrary library),
                      if (!is_module(module_of(library))) return cudaErrorInvalidResourceHandle;
                      if (found == nullptr) return cudaErrorInvalidValue;
                      *found = reinterpret_cast<CUmodule>(library); return cudaSuccess;)

// Properties of kernels

MILLRACE_CONTEXT_CALL(cuKernelGetFunction, (CUfunction * found, CUkernel kernel),
                      if (found == nullptr) return cudaErrorInvalidValue;
                      return with_kernel(kernel, [&](Kernel& known) {
                        *found = reinterpret_cast<CUfunction>(&known);
                        return cudaSuccess;
                      });)
MILLRACE_DRIVER_CALL(cuKernelGetLibrary, (CUlibrary * found, CUkernel kernel),
                     if (found == nullptr) return cudaErrorInvalidValue;
                     return with_kernel(kernel, [&](Kernel& known) {
                       *found = reinterpret_cast<CUlibrary>(known.module);
                       return cudaSuccess;
                     });)
MILLRACE_DRIVER_CALL(cuKernelGetName, (const char** name, CUkernel kernel),
                     return kernel == nullptr ? cudaErrorInvalidValue
                                              : MILLRACE_AS(cudaFuncGetName, name, kernel);)
MILLRACE_DRIVER_CALL(cuKernelGetAttribute,
                     (int* value, CUfunction_attribute which, CUkernel kernel, CUdevice device),
                     return is_gpu(device) ? attribute(value, which, kernel)
                                           : cudaErrorInvalidDevice;)
MILLRACE_DRIVER_CALL(cuKernelSetAttribute,
                     (CUfunction_attribute which, int value, CUkernel kernel, CUdevice device),
                     if (!is_gpu(device)) return cudaErrorInvalidDevice;
                     return MILLRACE_AS(cudaFuncSetAttribute, kernel,
                                        static_cast<cudaFuncAttribute>(which), value);)
MILLRACE_CONTEXT_CALL(cuFuncGetName, (const char** name, CUfunction function),
                      return function == nullptr ? cudaErrorInvalidValue
                                                 : MILLRACE_AS(cudaFuncGetName, name, function);)
MILLRACE_CONTEXT_CALL(cuFuncGetModule, (CUmodule * found, CUfunction function),
                      if (found == nullptr) return cudaErrorInvalidValue;
                      return with_kernel(function, [&](Kernel& known) {
                        *found = reinterpret_cast<CUmodule>(known.module);
                        return cudaSuccess;
                      });)
MILLRACE_CONTEXT_CALL(cuFuncGetAttribute,
                      (int* value, CUfunction_attribute which, CUfunction function),
                      return attribute(value, which, function);)
MILLRACE_CONTEXT_CALL(cuFuncSetAttribute,
                      (CUfunction function, CUfunction_attribute which, int value),
                      return MILLRACE_AS(cudaFuncSetAttribute, function,
                                         static_cast<cudaFuncAttribute>(which), value);)
MILLRACE_CONTEXT_CALL(cuFuncIsLoaded, (int* state, CUfunction function),
                      if (state == nullptr) return cudaErrorInvalidValue;
                      return with_kernel(function, [&](Kernel&) {
                        *state = 1;
                        return cudaSuccess;
                      });)
MILLRACE_CONTEXT_CALL(cuFuncLoad, (CUfunction function),
                      return with_kernel(function, [](Kernel&) { return cudaSuccess; });)
MILLRACE_CONTEXT_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                      (int* blocks, CUfunction function, int block_size, std::size_t shared),
                      return MILLRACE_AS(cudaOccupancyMaxActiveBlocksPerMultiprocessor, blocks,
                                         function, block_size, shared);)
MILLRACE_CONTEXT_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                      (int* blocks, CUfunction function, int block_size, std::size_t shared,
                       unsigned),
                      return MILLRACE_AS(cudaOccupancyMaxActiveBlocksPerMultiprocessor, blocks,
                                         function, block_size, shared);)
MILLRACE_CONTEXT_CALL(cuOccupancyAvailableDynamicSMemPerBlock,
                      (std::size_t * bytes, CUfunction function, int blocks, int block_size),
                      return MILLRACE_AS(cudaOccupancyAvailableDynamicSMemPerBlock, bytes, function,
                                         blocks, block_size);)
MILLRACE_CONTEXT_CALL(cuOccupancyMaxPotentialBlockSize,
                      (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                       std::size_t shared, int limit),
                      return potential_block_size(grid, block, function, shared_of, shared, limit);)
MILLRACE_CONTEXT_CALL(cuOccupancyMaxPotentialBlockSizeWithFlags,
                      (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                       std::size_t shared, int limit, unsigned),
                      return potential_block_size(grid, block, function, shared_of, shared, limit);)

// Launches

MILLRACE_CONTEXT_TWINS(cuLaunchKernel, ptsz,
                       (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters, void** extra),
                       return launch(function, {grid_x, grid_y, grid_z},
                                     {block_x, block_y, block_z}, shared,
                                     stream_of(stream, meaning), parameters, extra);)
MILLRACE_CONTEXT_TWINS(cuLaunchCooperativeKernel, ptsz,
                       (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                        CUstream stream, void** parameters),
                       return launch(function, {grid_x, grid_y, grid_z},
                                     {block_x, block_y, block_z}, shared,
                                     stream_of(stream, meaning), parameters, nullptr);)
MILLRACE_CONTEXT_TWINS(cuLaunchKernelEx, ptsz,
                       (const CUlaunchConfig* config, CUfunction function, void** parameters,
                        void** extra),
                       return launch(config, function, meaning, parameters, extra);)
