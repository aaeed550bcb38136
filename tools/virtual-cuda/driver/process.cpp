#include "abi/functions.h"
#include "driver/entry.hpp"
#include "driver/symbols.hpp"
#include "exports/refuse.hpp"

using namespace millrace::virtual_cuda;

namespace {

// Works without `driver_call`: programs look up addresses before cuInit and at the process's end.
CUresult proc_address(const char* symbol, void** function, int version, unsigned long long flags,
                      CUdriverProcAddressQueryResult* status) {
  constexpr unsigned long long kFlags =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || function == nullptr || (flags & ~kFlags) != 0 ||
      version > kDriverVersion)
    return cudaErrorInvalidValue;
  const FoundSymbol found = find_driver_function(
      symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  *function = found.function;
  if (status != nullptr) *status = found.status;
  if (found.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
    name_lacking(symbol, "asked for by cuGetProcAddress; it is not in CUDA 13.0");
  return cudaSuccess;
}

}  // namespace

MILLRACE_EXPORT CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = kDriverVersion;
  return cudaSuccess;
}
MILLRACE_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int version,
                                          unsigned long long flags) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult error = proc_address(symbol, function, version, flags, &status);
  if (error != cudaSuccess) return error;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? cudaSuccess : cudaErrorSymbolNotFound;
}
MILLRACE_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                             unsigned long long flags,
                                             CUdriverProcAddressQueryResult* status) {
  return proc_address(symbol, function, version, flags, status);
}
MILLRACE_DRIVER_ANYTIME(cuInit, (unsigned flags),
                        return flags == 0 ? cudaSuccess : cudaErrorInvalidValue;)
MILLRACE_DRIVER_ANYTIME(cuGetExportTable, (const void** table, const CUuuid* id),
                        return MILLRACE_AS(cudaGetExportTable, table, id);)
MILLRACE_DRIVER_ANYTIME(cuLogsRegisterCallback, (void* callback, void*, void** handle),
                        if (callback == nullptr || handle == nullptr) return cudaErrorInvalidValue;
                        *handle = callback; return cudaSuccess;)
