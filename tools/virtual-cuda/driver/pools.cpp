#include "abi/functions.h"
#include "driver/entry.hpp"

using namespace millrace::virtual_cuda;

namespace {

cudaError_t allocate(CUdeviceptr* made, std::size_t bytes, CUstream stream, Default meaning) {
  return give_address(made, [&](void** out) {
    return MILLRACE_AS(cudaMallocAsync, out, bytes, stream_of(stream, meaning));
  });
}

cudaError_t allocate_from(CUdeviceptr* made, std::size_t bytes, CUmemoryPool pool, CUstream stream,
                          Default meaning) {
  return give_address(made, [&](void** out) {
    return MILLRACE_AS(cudaMallocFromPoolAsync, out, bytes, pool, stream_of(stream, meaning));
  });
}

}  // namespace

MILLRACE_STREAM_TWINS(cuMemAllocAsync, ptsz,
                      (CUdeviceptr * made, std::size_t bytes, CUstream stream),
                      return allocate(made, bytes, stream, meaning);)
MILLRACE_STREAM_TWINS(cuMemAllocFromPoolAsync, ptsz,
                      (CUdeviceptr * made, std::size_t bytes, CUmemoryPool pool, CUstream stream),
                      return allocate_from(made, bytes, pool, stream, meaning);)
MILLRACE_STREAM_TWINS(cuMemFreeAsync, ptsz, (CUdeviceptr address, CUstream stream),
                      if (address == 0) return cudaErrorInvalidValue;
                      return MILLRACE_AS(cudaFreeAsync, pointer(address),
                                         stream_of(stream, meaning));)
MILLRACE_DRIVER_CALL(cuMemPoolCreate, (CUmemoryPool * pool, const cudaMemPoolProps* properties),
                     return MILLRACE_AS(cudaMemPoolCreate, pool, properties);)
MILLRACE_DRIVER_CALL(cuMemPoolDestroy, (CUmemoryPool pool),
                     return MILLRACE_AS(cudaMemPoolDestroy, pool);)
MILLRACE_DRIVER_CALL(cuMemPoolGetAttribute,
                     (CUmemoryPool pool, cudaMemPoolAttr attribute, void* value),
                     return MILLRACE_AS(cudaMemPoolGetAttribute, pool, attribute, value);)
MILLRACE_DRIVER_CALL(cuMemPoolSetAttribute,
                     (CUmemoryPool pool, cudaMemPoolAttr attribute, void* value),
                     return MILLRACE_AS(cudaMemPoolSetAttribute, pool, attribute, value);)
MILLRACE_DRIVER_CALL(cuMemPoolTrimTo, (CUmemoryPool pool, std::size_t keep),
                     return MILLRACE_AS(cudaMemPoolTrimTo, pool, keep);)
MILLRACE_DRIVER_CALL(cuMemPoolSetAccess,
                     (CUmemoryPool pool, const cudaMemAccessDesc* access, std::size_t count),
                     return MILLRACE_AS(cudaMemPoolSetAccess, pool, access, count);)
MILLRACE_DRIVER_CALL(cuMemPoolGetAccess,
                     (cudaMemAccessFlags * flags, CUmemoryPool pool, cudaMemLocation* location),
                     return MILLRACE_AS(cudaMemPoolGetAccess, flags, pool, location);)
MILLRACE_DRIVER_CALL(cuMemPoolExportToShareableHandle,
                     (void* out, CUmemoryPool pool, cudaMemAllocationHandleType type,
                      unsigned long long flags),
                     if (flags != 0) return cudaErrorInvalidValue;
                     return MILLRACE_AS(cudaMemPoolExportToShareableHandle, out, pool, type, 0);)
MILLRACE_DRIVER_CALL(cuMemPoolImportFromShareableHandle,
                     (CUmemoryPool * pool, void* file, cudaMemAllocationHandleType type,
                      unsigned long long flags),
                     if (flags != 0) return cudaErrorInvalidValue;
                     return MILLRACE_AS(cudaMemPoolImportFromShareableHandle, pool, file, type, 0);)
MILLRACE_DRIVER_CALL(cuMemPoolExportPointer, (cudaMemPoolPtrExportData * data, CUdeviceptr address),
                     return MILLRACE_AS(cudaMemPoolExportPointer, data, pointer(address));)
MILLRACE_DRIVER_CALL(cuMemPoolImportPointer,
                     (CUdeviceptr * address, CUmemoryPool pool, cudaMemPoolPtrExportData* data),
                     return give_address(address, [&](void** out) {
                       return MILLRACE_AS(cudaMemPoolImportPointer, out, pool, data);
                     });)
MILLRACE_CONTEXT_CALL(cuIpcGetMemHandle, (cudaIpcMemHandle_t * handle, CUdeviceptr address),
                      return MILLRACE_AS(cudaIpcGetMemHandle, handle, pointer(address));)
MILLRACE_CONTEXT_CALL(cuIpcOpenMemHandle,
                      (CUdeviceptr * address, cudaIpcMemHandle_t handle, unsigned flags),
                      return give_address(address, [&](void** out) {
                        return MILLRACE_AS(cudaIpcOpenMemHandle, out, handle, flags);
                      });)
MILLRACE_CONTEXT_CALL(cuIpcOpenMemHandle_v2,
                      (CUdeviceptr * address, cudaIpcMemHandle_t handle, unsigned flags),
                      return give_address(address, [&](void** out) {
                        return MILLRACE_AS(cudaIpcOpenMemHandle, out, handle, flags);
                      });)
MILLRACE_CONTEXT_CALL(cuIpcCloseMemHandle, (CUdeviceptr address),
                      return MILLRACE_AS(cudaIpcCloseMemHandle, pointer(address));)
MILLRACE_DRIVER_CALL(cuMemGetDefaultMemPool,
                     (CUmemoryPool * pool, cudaMemLocation* location, cudaMemAllocationType type),
                     return MILLRACE_AS(cudaMemGetDefaultMemPool, pool, location, type);)
MILLRACE_DRIVER_CALL(cuMemGetMemPool,
                     (CUmemoryPool * pool, cudaMemLocation* location, cudaMemAllocationType type),
                     return MILLRACE_AS(cudaMemGetMemPool, pool, location, type);)
MILLRACE_DRIVER_CALL(cuMemSetMemPool,
                     (cudaMemLocation * location, cudaMemAllocationType type, CUmemoryPool pool),
                     return MILLRACE_AS(cudaMemSetMemPool, location, type, pool);)
