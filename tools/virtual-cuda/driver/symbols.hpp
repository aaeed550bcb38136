#pragma once

#include "abi/cuda_driver.h"

namespace millrace::virtual_cuda {

/** @brief CUDA_VERSION of the virtual driver. */
inline constexpr int kDriverVersion = 13000;

/** @brief The result of a search for a function of the driver. */
struct FoundSymbol {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

/**
 * @brief The driver's function `name` with the parameters that it had in a version of CUDA.
 * @param name        without a suffix: "cuMemAlloc"
 * @param version     1000 * major + 10 * minor
 * @param per_thread  prefers the twin for per-thread default streams
 */
[[nodiscard]] FoundSymbol find_driver_function(const char* name, int version,
                                               bool per_thread) noexcept;

}  // namespace millrace::virtual_cuda
