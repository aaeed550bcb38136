#include "abi/functions.h"
#include "driver/boxes.hpp"
#include "driver/entry.hpp"
#include "exports/transfer.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

CUstream_st* default_stream(Default meaning) { return find_stream(nullptr, meaning); }

cudaError_t copy_bytes(CUstream_st* stream, const void* to, const void* from, std::size_t bytes,
                       cudaMemcpyKind kind, Host host) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (quick() && to != nullptr && from != nullptr && plainly_allowed(kind, to, from)) {
    perform(CopyWork{plane(to), plane(from), bytes, 1, 1, Direction::on_device, kind, {}});
    return cudaSuccess;
  }
  return copy(stream, {plane(to), plane(from), bytes, 1, 1, Direction::on_device, kind, {}}, host);
}

/** The driver's description of one end of a copy of rows or layers. */
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  std::size_t x, y, z, pitch, height;
};

cudaError_t plane_of(const End& end, std::size_t width, std::size_t rows, Plane& out) {
  if (end.type != CU_MEMORYTYPE_HOST && end.type != CU_MEMORYTYPE_DEVICE &&
      end.type != CU_MEMORYTYPE_UNIFIED)
    return cudaErrorInvalidValue;
  const void* const base = end.type == CU_MEMORYTYPE_HOST ? end.host : pointer(end.device);
  // A pitch of 0 means rows without gaps, a height of 0 layers without gaps.
  const std::size_t pitch = end.pitch == 0 ? width : end.pitch;
  if (width > pitch) return cudaErrorInvalidValue;
  out = plane(base, pitch, end.height == 0 ? rows : end.height);
  if (out.base != nullptr) out.base += end.x + end.y * out.pitch + end.z * out.slice;
  return cudaSuccess;
}

cudaError_t copy_ends(CUstream_st* stream, const End& to, const End& from, std::size_t width,
                      std::size_t height, std::size_t depth, Host host) {
  CopyWork work;
  work.width = width;
  work.height = height;
  work.depth = depth;
  work.kind = cudaMemcpyDefault;
  if (const cudaError_t error = plane_of(to, width, height, work.to); error != cudaSuccess)
    return error;
  if (const cudaError_t error = plane_of(from, width, height, work.from); error != cudaSuccess)
    return error;
  return copy(stream, std::move(work), host);
}

template <typename All>
bool has_array(const All& all) {
  return all.dstMemoryType == CU_MEMORYTYPE_ARRAY || all.srcMemoryType == CU_MEMORYTYPE_ARRAY;
}

cudaError_t copy_with_array(CUstream_st* stream, const CUDA_MEMCPY3D& all, Host host) {
  cudaMemcpy3DParms box{};
  if (const cudaError_t error = from_box(&all, box); error != cudaSuccess) return error;
  CopyWork work;
  const cudaError_t error = from_parameters(box, work);
  return error != cudaSuccess ? error : copy(stream, std::move(work), host);
}

cudaError_t copy_rows(CUstream_st* stream, const CUDA_MEMCPY2D* all, Host host) {
  if (all == nullptr) return cudaErrorInvalidValue;
  if (has_array(*all)) return copy_with_array(stream, box_of(*all), host);
  return copy_ends(stream,
                   {all->dstMemoryType, all->dstHost, all->dstDevice, all->dstXInBytes, all->dstY,
                    0, all->dstPitch, 0},
                   {all->srcMemoryType, all->srcHost, all->srcDevice, all->srcXInBytes, all->srcY,
                    0, all->srcPitch, 0},
                   all->WidthInBytes, all->Height, 1, host);
}

cudaError_t copy_box(CUstream_st* stream, const CUDA_MEMCPY3D* all, Host host) {
  if (all == nullptr) return cudaErrorInvalidValue;
  if (has_array(*all)) return copy_with_array(stream, *all, host);
  return copy_ends(stream,
                   {all->dstMemoryType, all->dstHost, all->dstDevice, all->dstXInBytes, all->dstY,
                    all->dstZ, all->dstPitch, all->dstHeight},
                   {all->srcMemoryType, all->srcHost, all->srcDevice, all->srcXInBytes, all->srcY,
                    all->srcZ, all->srcPitch, all->srcHeight},
                   all->WidthInBytes, all->Height, all->Depth, host);
}

/** Fills rows of elements. The pitch of a single row is ignored. */
cudaError_t fill_elements(CUstream_st* stream, CUdeviceptr to, std::size_t pitch,
                          std::uint32_t value, unsigned element, std::size_t width,
                          std::size_t height, Host host) {
  if (to % element != 0 || (height > 1 && pitch % element != 0)) return cudaErrorInvalidValue;
  if (height > 1 && width * element > pitch) return cudaErrorInvalidValue;
  return fill(stream, {plane(pointer(to), pitch), value, element, width, height, 1}, host);
}

}  // namespace

MILLRACE_CONTEXT_TWINS(cuMemcpy, ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
                       return copy_bytes(default_stream(meaning), pointer(to), pointer(from), bytes,
                                         cudaMemcpyDefault, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyAsync, ptsz,
                       (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                       return copy_bytes(find_stream(stream, meaning), pointer(to), pointer(from),
                                         bytes, cudaMemcpyDefault, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyPeer, ptds,
                       (CUdeviceptr to, void*, CUdeviceptr from, void*, std::size_t bytes),
                       return copy_bytes(default_stream(meaning), pointer(to), pointer(from), bytes,
                                         cudaMemcpyDefault, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyPeerAsync, ptsz,
                       (CUdeviceptr to, void*, CUdeviceptr from, void*, std::size_t bytes,
                        CUstream stream),
                       return copy_bytes(find_stream(stream, meaning), pointer(to), pointer(from),
                                         bytes, cudaMemcpyDefault, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyHtoD_v2, ptds, (CUdeviceptr to, const void* from, std::size_t bytes),
                       return copy_bytes(default_stream(meaning), pointer(to), from, bytes,
                                         cudaMemcpyHostToDevice, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyDtoH_v2, ptds, (void* to, CUdeviceptr from, std::size_t bytes),
                       return copy_bytes(default_stream(meaning), to, pointer(from), bytes,
                                         cudaMemcpyDeviceToHost, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyDtoD_v2, ptds, (CUdeviceptr to, CUdeviceptr from, std::size_t bytes),
                       return copy_bytes(default_stream(meaning), pointer(to), pointer(from), bytes,
                                         cudaMemcpyDeviceToDevice, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyHtoDAsync_v2, ptsz,
                       (CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream),
                       return copy_bytes(find_stream(stream, meaning), pointer(to), from, bytes,
                                         cudaMemcpyHostToDevice, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyDtoHAsync_v2, ptsz,
                       (void* to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                       return copy_bytes(find_stream(stream, meaning), to, pointer(from), bytes,
                                         cudaMemcpyDeviceToHost, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyDtoDAsync_v2, ptsz,
                       (CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream),
                       return copy_bytes(find_stream(stream, meaning), pointer(to), pointer(from),
                                         bytes, cudaMemcpyDeviceToDevice, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpy2D_v2, ptds, (const CUDA_MEMCPY2D* all),
                       return copy_rows(default_stream(meaning), all, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpy2DUnaligned_v2, ptds, (const CUDA_MEMCPY2D* all),
                       return copy_rows(default_stream(meaning), all, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpy2DAsync_v2, ptsz, (const CUDA_MEMCPY2D* all, CUstream stream),
                       return copy_rows(find_stream(stream, meaning), all, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpy3D_v2, ptds, (const CUDA_MEMCPY3D* all),
                       return copy_box(default_stream(meaning), all, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpy3DAsync_v2, ptsz, (const CUDA_MEMCPY3D* all, CUstream stream),
                       return copy_box(find_stream(stream, meaning), all, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpy3DPeer, ptds, (const CUDA_MEMCPY3D* all),
                       return copy_box(default_stream(meaning), all, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpy3DPeerAsync, ptsz, (const CUDA_MEMCPY3D* all, CUstream stream),
                       return copy_box(find_stream(stream, meaning), all, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyBatchAsync, ptsz,
                       (void** to, void** from, std::size_t* bytes, std::size_t count,
                        cudaMemcpyAttributes*, std::size_t*, std::size_t, std::size_t* failed,
                        CUstream stream),
                       return copy_batch(find_stream(stream, meaning), to, from, bytes, count,
                                         failed);)
MILLRACE_CONTEXT_TWINS(cuMemcpyBatchAsync_v2, ptsz,
                       (void** to, void** from, std::size_t* bytes, std::size_t count,
                        cudaMemcpyAttributes*, std::size_t*, std::size_t, CUstream stream),
                       return copy_batch(find_stream(stream, meaning), to, from, bytes, count,
                                         nullptr);)

#define MILLRACE_FILLS(bits, element, value_type)                                                  \
  MILLRACE_CONTEXT_TWINS(cuMemsetD##bits##_v2, ptds,                                               \
                         (CUdeviceptr to, value_type value, std::size_t count),                    \
                         return fill_elements(default_stream(meaning), to, 0, value, element,      \
                                              count, 1, Host::waits);)                             \
  MILLRACE_CONTEXT_TWINS(cuMemsetD##bits##Async, ptsz,                                             \
                         (CUdeviceptr to, value_type value, std::size_t count, CUstream stream),   \
                         return fill_elements(find_stream(stream, meaning), to, 0, value, element, \
                                              count, 1, Host::goes_on);)                           \
  MILLRACE_CONTEXT_TWINS(cuMemsetD2D##bits##_v2, ptds,                                             \
                         (CUdeviceptr to, std::size_t pitch, value_type value, std::size_t width,  \
                          std::size_t height),                                                     \
                         return fill_elements(default_stream(meaning), to, pitch, value, element,  \
                                              width, height, Host::waits);)                        \
  MILLRACE_CONTEXT_TWINS(cuMemsetD2D##bits##Async, ptsz,                                           \
                         (CUdeviceptr to, std::size_t pitch, value_type value, std::size_t width,  \
                          std::size_t height, CUstream stream),                                    \
                         return fill_elements(find_stream(stream, meaning), to, pitch, value,      \
                                              element, width, height, Host::goes_on);)
MILLRACE_FILLS(8, 1, unsigned char)
MILLRACE_FILLS(16, 2, unsigned short)
MILLRACE_FILLS(32, 4, unsigned)
