#include <cstdio>
#include <cstring>

#include "driver/symbols.hpp"
#include "engine/kernels.hpp"
#include "exports/entry.hpp"
#include "exports/refuse.hpp"
#include "exports/versions.hpp"

using namespace millrace::virtual_cuda;

namespace {

cudaError_t export_table(const void** table, const cudaUUID_t* id) {
  static constexpr cudaUUID_t kOwn = MILLRACE_VIRTUAL_CUDA_ID;
  if (table == nullptr || id == nullptr) return cudaErrorInvalidValue;
  if (std::memcmp(id->bytes, kOwn.bytes, sizeof kOwn.bytes) != 0) {
    // NVIDIA's tables are not documented.
    *table = nullptr;
    return refuse("cudaGetExportTable", "a table of another vendor");
  }
  *table = &virtual_cuda_table();
  return cudaSuccess;
}

// Programs may ask for versions without a device.
cudaError_t version(int* value, int answer) {
  if (value == nullptr) return cudaErrorInvalidValue;
  *value = answer;
  return cudaSuccess;
}

}  // namespace

MILLRACE_EXPORT cudaError_t cudaRuntimeGetVersion(int* value) {
  return version(value, kRuntimeVersion);
}
MILLRACE_EXPORT cudaError_t cudaDriverGetVersion(int* value) {
  return version(value, kDriverVersion);
}
MILLRACE_CALL(cudaGetExportTable, (const void** table, const cudaUUID_t* id),
              return export_table(table, id);)

namespace {

cudaError_t driver_entry_point(const char* symbol, void** function, unsigned version,
                               unsigned long long flags, Default meaning,
                               cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr ||
      flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return cudaErrorInvalidValue;
  const bool per_thread = flags == CU_GET_PROC_ADDRESS_DEFAULT
                              ? meaning == Default::per_thread
                              : flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  const FoundSymbol found = find_driver_function(symbol, static_cast<int>(version), per_thread);
  *function = found.function;
  if (found.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
    name_lacking(symbol, "asked for by cudaGetDriverEntryPoint; it is not in CUDA 13.0");
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found.status);
  return found.function == nullptr && status == nullptr ? cudaErrorSymbolNotFound : cudaSuccess;
}

}  // namespace

MILLRACE_TWINS(cudaGetDriverEntryPoint, ptsz,
               (const char* symbol, void** function, unsigned long long flags,
                cudaDriverEntryPointQueryResult* status),
               return driver_entry_point(symbol, function, kRuntimeVersion, flags, meaning,
                                         status);)
MILLRACE_TWINS(cudaGetDriverEntryPointByVersion, ptsz,
               (const char* symbol, void** function, unsigned version, unsigned long long flags,
                cudaDriverEntryPointQueryResult* status),
               return driver_entry_point(symbol, function, version, flags, meaning, status);)
MILLRACE_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                            cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
