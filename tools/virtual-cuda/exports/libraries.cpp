// Kernels that are loaded at run time. Machine code is not read, so a library has a kernel of every
// name that a program looks up.

#include "exports/libraries.hpp"

#include <sys/stat.h>

using namespace millrace::virtual_cuda;

namespace millrace::virtual_cuda {

cudaError_t load_module(void*** made, const void* code) {
  if (made == nullptr || code == nullptr) return cudaErrorInvalidValue;
  *made = register_module();
  return cudaSuccess;
}

cudaError_t load_module_file(void*** made, const char* name) {
  struct stat file {};
  if (made == nullptr || name == nullptr) return cudaErrorInvalidValue;
  return stat(name, &file) == 0 ? load_module(made, name) : cudaErrorFileNotFound;
}

cudaError_t unload_module(void** module) {
  if (!is_module(module)) return cudaErrorInvalidResourceHandle;
  {
    // Launches of its kernels may be pending.
    Lock lock = lock_engine();
    runtime().engine.wait_for_all(lock);
  }
  unregister_module(module);
  return cudaSuccess;
}

cudaError_t find_in_module(Kernel** found, void** module, const char* name) {
  if (found == nullptr || name == nullptr || *name == '\0') return cudaErrorInvalidValue;
  *found = module_kernel(module, name);
  return *found == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

}  // namespace millrace::virtual_cuda

extern "C" cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                            int value);

MILLRACE_CALL(cudaLibraryLoadData,
              (void*** library, const void* code, int*, void**, unsigned, int*, void**, unsigned),
              return load_module(library, code);)
MILLRACE_CALL(cudaLibraryLoadFromFile,
              (void*** library, const char* name, int*, void**, unsigned, int*, void**, unsigned),
              return load_module_file(library, name);)
MILLRACE_CALL(cudaLibraryUnload, (void** library), return unload_module(library);)
MILLRACE_CALL(cudaLibraryGetKernel, (Kernel * *kernel, void** library, const char* name),
              return find_in_module(kernel, library, name);)
MILLRACE_CALL(cudaKernelSetAttributeForDevice,
              (Kernel * kernel, cudaFuncAttribute attribute, int value, int device),
              return is_gpu(device) ? cudaFuncSetAttribute(kernel, attribute, value)
                                    : cudaErrorInvalidDevice;)
