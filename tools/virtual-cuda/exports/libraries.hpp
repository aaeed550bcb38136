#pragma once

#include "engine/kernels.hpp"
#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

// Modules that a program loads at run time, for the runtime and the driver.

cudaError_t load_module(void*** made, const void* code);
cudaError_t load_module_file(void*** made, const char* name);
/** @brief Waits for all work first, because launches may refer to kernels of the module. */
cudaError_t unload_module(void** module);
cudaError_t find_in_module(Kernel** found, void** module, const char* name);

}  // namespace millrace::virtual_cuda
