#include <cstdio>
#include <cstring>

#include "engine/kernels.hpp"
#include "exports/driver.hpp"
#include "exports/entry.hpp"
#include "exports/refuse.hpp"
#include "exports/versions.hpp"

using namespace millrace::virtual_cuda;

namespace {

cudaError_t export_table(const void** table, const cudaUUID_t* id) {
  static constexpr cudaUUID_t kOwn = MILLRACE_VIRTUAL_CUDA_ID;
  if (table == nullptr || id == nullptr) return cudaErrorInvalidValue;
  if (std::memcmp(id->bytes, kOwn.bytes, sizeof kOwn.bytes) != 0) {
    // Other tables are not documented.
    *table = nullptr;
    return refuse("cudaGetExportTable", "a table of another vendor");
  }
  *table = &virtual_cuda_table();
  return cudaSuccess;
}

// Versions are asked for without a device.
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
  return version(value, kRuntimeVersion);
}
MILLRACE_CALL(cudaGetExportTable, (const void** table, const cudaUUID_t* id),
              return export_table(table, id);)

namespace {

cudaError_t driver_entry_point(const char* symbol, void** function,
                               cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = find_driver_function(symbol);
  if (*function != nullptr) {
    if (status != nullptr) *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
  }
  refuse(symbol, "asked for by cudaGetDriverEntryPoint; the virtual runtime has no such function");
  if (status == nullptr) return cudaErrorSymbolNotFound;
  *status = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

/** What cudaCreateChannelDesc returns: bits of each component, and their kind. */
struct ChannelFormat {
  int x, y, z, w;
  int kind;
};

}  // namespace

MILLRACE_TWINS(cudaGetDriverEntryPoint, ptsz,
               (const char* symbol, void** function, unsigned long long,
                cudaDriverEntryPointQueryResult* status),
               static_cast<void>(meaning);
               return driver_entry_point(symbol, function, status);)
MILLRACE_TWINS(cudaGetDriverEntryPointByVersion, ptsz,
               (const char* symbol, void** function, unsigned, unsigned long long,
                cudaDriverEntryPointQueryResult* status),
               static_cast<void>(meaning);
               return driver_entry_point(symbol, function, status);)
MILLRACE_EXPORT ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}
