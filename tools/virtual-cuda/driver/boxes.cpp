#include "driver/boxes.hpp"

#include "driver/entry.hpp"
#include "exports/transfer.hpp"

namespace millrace::virtual_cuda {
namespace {

bool is_kind_of_memory(CUmemorytype type) {
  return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

/** The memory of one end; empty if the end is an array. A pitch of 0 means rows without gaps, a
 *  height of 0 layers without gaps. */
cudaPitchedPtr memory_of(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch,
                         std::size_t height, const CUDA_MEMCPY3D& all) {
  if (type == CU_MEMORYTYPE_ARRAY) return {};
  const void* const base = type == CU_MEMORYTYPE_HOST ? host : pointer(device);
  return {const_cast<void*>(base), pitch == 0 ? all.WidthInBytes : pitch, all.WidthInBytes,
          height == 0 ? all.Height : height};
}

CUmemorytype type_of(CUarray array, const void* address) {
  if (array != nullptr) return CU_MEMORYTYPE_ARRAY;
  return runtime().memory.on_device(address) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

}  // namespace

cudaError_t from_box(const CUDA_MEMCPY3D* all, cudaMemcpy3DParms& out) {
  if (all == nullptr || !is_kind_of_memory(all->srcMemoryType) ||
      !is_kind_of_memory(all->dstMemoryType))
    return cudaErrorInvalidValue;
  out = {};
  out.srcPos = {all->srcXInBytes, all->srcY, all->srcZ};
  out.dstPos = {all->dstXInBytes, all->dstY, all->dstZ};
  out.srcPtr = memory_of(all->srcMemoryType, all->srcHost, all->srcDevice, all->srcPitch,
                         all->srcHeight, *all);
  out.dstPtr = memory_of(all->dstMemoryType, all->dstHost, all->dstDevice, all->dstPitch,
                         all->dstHeight, *all);
  out.extent = {all->WidthInBytes, all->Height, all->Depth};
  out.kind = cudaMemcpyDefault;
  const bool from_array = all->srcMemoryType == CU_MEMORYTYPE_ARRAY;
  const bool to_array = all->dstMemoryType == CU_MEMORYTYPE_ARRAY;
  if (!from_array && !to_array) return cudaSuccess;
  if ((from_array && all->srcArray == nullptr) || (to_array && all->dstArray == nullptr))
    return cudaErrorInvalidValue;
  if (from_array) out.srcArray = all->srcArray;
  if (to_array) out.dstArray = all->dstArray;
  return in_elements(out);
}

cudaError_t to_box(cudaMemcpy3DParms found, CUDA_MEMCPY3D& all) {
  if (const cudaError_t error = in_bytes(found); error != cudaSuccess) return error;
  const Lock lock = lock_engine();
  all = {};
  all.srcXInBytes = found.srcPos.x;
  all.srcY = found.srcPos.y;
  all.srcZ = found.srcPos.z;
  all.srcMemoryType = type_of(found.srcArray, found.srcPtr.ptr);
  all.srcHost = found.srcPtr.ptr;
  all.srcDevice = address_of(found.srcPtr.ptr);
  all.srcArray = found.srcArray;
  all.srcPitch = found.srcPtr.pitch;
  all.srcHeight = found.srcPtr.ysize;
  all.dstXInBytes = found.dstPos.x;
  all.dstY = found.dstPos.y;
  all.dstZ = found.dstPos.z;
  all.dstMemoryType = type_of(found.dstArray, found.dstPtr.ptr);
  all.dstHost = found.dstPtr.ptr;
  all.dstDevice = address_of(found.dstPtr.ptr);
  all.dstArray = found.dstArray;
  all.dstPitch = found.dstPtr.pitch;
  all.dstHeight = found.dstPtr.ysize;
  all.WidthInBytes = found.extent.width;
  all.Height = found.extent.height;
  all.Depth = found.extent.depth;
  return cudaSuccess;
}

CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D& rows) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = rows.srcXInBytes;
  box.srcY = rows.srcY;
  box.srcMemoryType = rows.srcMemoryType;
  box.srcHost = rows.srcHost;
  box.srcDevice = rows.srcDevice;
  box.srcArray = rows.srcArray;
  box.srcPitch = rows.srcPitch;
  box.dstXInBytes = rows.dstXInBytes;
  box.dstY = rows.dstY;
  box.dstMemoryType = rows.dstMemoryType;
  box.dstHost = rows.dstHost;
  box.dstDevice = rows.dstDevice;
  box.dstArray = rows.dstArray;
  box.dstPitch = rows.dstPitch;
  box.WidthInBytes = rows.WidthInBytes;
  box.Height = rows.Height;
  box.Depth = 1;
  return box;
}

}  // namespace millrace::virtual_cuda
