#include "exports/arrays.hpp"

#include "driver/entry.hpp"
#include "exports/array_copies.hpp"
#include "exports/refuse.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

/** @param make  uses the shape that the program describes */
template <typename Make>
cudaError_t with_shape(const char* function, const CUDA_ARRAY3D_DESCRIPTOR* all, Make make) {
  if (all == nullptr) return cudaErrorInvalidValue;
  ArrayShape shape{{}, {all->Width, all->Height, all->Depth}, all->Flags};
  const cudaError_t error = find_format(all->Format, all->NumChannels, shape.format);
  if (error == cudaErrorNotSupported)
    return refuse(function, "formats of blocks, planes and parts of bytes");
  return error != cudaSuccess ? error : make(shape);
}

cudaError_t allocate(const char* function, CUarray* made, const CUDA_ARRAY3D_DESCRIPTOR* all) {
  return with_shape(function, all,
                    [&](const ArrayShape& shape) { return allocate_array(function, made, shape); });
}

cudaError_t allocate_rows(CUarray* made, const CUDA_ARRAY_DESCRIPTOR* all) {
  if (all == nullptr) return cudaErrorInvalidValue;
  const CUDA_ARRAY3D_DESCRIPTOR rows{all->Width, all->Height, 0, all->Format, all->NumChannels, 0};
  return allocate("cuArrayCreate_v2", made, &rows);
}

cudaError_t describe(CUDA_ARRAY3D_DESCRIPTOR* all, CUarray array) {
  if (all == nullptr) return cudaErrorInvalidValue;
  ArrayShape shape;
  if (const cudaError_t error = array_shape(array, shape); error != cudaSuccess) return error;
  *all = {shape.extent.width,  shape.extent.height,   shape.extent.depth,
          shape.format.format, shape.format.channels, shape.flags};
  return cudaSuccess;
}

cudaError_t describe(CUDA_ARRAY_DESCRIPTOR* all, CUarray array) {
  if (all == nullptr) return cudaErrorInvalidValue;
  CUDA_ARRAY3D_DESCRIPTOR found{};
  if (const cudaError_t error = describe(&found, array); error != cudaSuccess) return error;
  *all = {found.Width, found.Height, found.Format, found.NumChannels};
  return cudaSuccess;
}

// Copies of one row, at an offset in bytes.

cudaError_t copy_to_array(CUstream_st* stream, CUarray to, std::size_t offset, const void* from,
                          std::size_t bytes, cudaMemcpyKind kind, Host host) {
  return virtual_cuda::copy_to_array(stream, Corner{to, offset, 0}, from, bytes, bytes, 1, kind,
                                     host);
}

cudaError_t copy_from_array(CUstream_st* stream, void* to, CUarray from, std::size_t offset,
                            std::size_t bytes, cudaMemcpyKind kind, Host host) {
  return virtual_cuda::copy_from_array(stream, to, bytes, Corner{from, offset, 0}, bytes, 1, kind,
                                       host);
}

cudaError_t copy_between_arrays(CUstream_st* stream, CUarray to, std::size_t to_offset,
                                CUarray from, std::size_t from_offset, std::size_t bytes) {
  return virtual_cuda::copy_between_arrays(
      stream, Corner{to, to_offset, 0}, Corner{from, from_offset, 0}, bytes, 1, cudaMemcpyDefault);
}

CUstream_st* default_stream_of(Default meaning) { return find_stream(nullptr, meaning); }

}  // namespace

MILLRACE_CONTEXT_CALL(cuArrayCreate_v2, (CUarray * made, const CUDA_ARRAY_DESCRIPTOR* all),
                      return allocate_rows(made, all);)
MILLRACE_CONTEXT_CALL(cuArray3DCreate_v2, (CUarray * made, const CUDA_ARRAY3D_DESCRIPTOR* all),
                      return allocate("cuArray3DCreate_v2", made, all);)
MILLRACE_CONTEXT_CALL(cuArrayDestroy, (CUarray array), return free_array(array);)
MILLRACE_CONTEXT_CALL(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR * all, CUarray array),
                      return describe(all, array);)
MILLRACE_CONTEXT_CALL(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * all, CUarray array),
                      return describe(all, array);)
MILLRACE_CONTEXT_CALL(
    cuMipmappedArrayCreate,
    (CUmipmappedArray * made, const CUDA_ARRAY3D_DESCRIPTOR* all, unsigned levels),
    return with_shape("cuMipmappedArrayCreate", all, [&](const ArrayShape& shape) {
      return allocate_array("cuMipmappedArrayCreate", made, shape, levels);
    });)
MILLRACE_CONTEXT_CALL(cuMipmappedArrayDestroy, (CUmipmappedArray array), return free_array(array);)
MILLRACE_CONTEXT_CALL(cuMipmappedArrayGetLevel,
                      (CUarray * level, CUmipmappedArray array, unsigned number),
                      return array_level(level, array, number);)
MILLRACE_CONTEXT_CALL(cuArrayGetPlane, (CUarray*, CUarray array, unsigned), return lacks_it(array);)
MILLRACE_CONTEXT_CALL(cuArrayGetMemoryRequirements,
                      (cudaArrayMemoryRequirements*, CUarray array, CUdevice device),
                      return is_gpu(device) ? lacks_it(array) : cudaErrorInvalidDevice;)
MILLRACE_CONTEXT_CALL(cuMipmappedArrayGetMemoryRequirements,
                      (cudaArrayMemoryRequirements*, CUmipmappedArray array, CUdevice device),
                      return is_gpu(device) ? lacks_it(array) : cudaErrorInvalidDevice;)
MILLRACE_CONTEXT_CALL(cuArrayGetSparseProperties, (void*, CUarray array), return lacks_it(array);)
MILLRACE_CONTEXT_CALL(cuMipmappedArrayGetSparseProperties, (void*, CUmipmappedArray array),
                      return lacks_it(array);)

MILLRACE_CONTEXT_TWINS(cuMemcpyHtoA_v2, ptds,
                       (CUarray to, std::size_t offset, const void* from, std::size_t bytes),
                       return copy_to_array(default_stream_of(meaning), to, offset, from, bytes,
                                            cudaMemcpyHostToDevice, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyHtoAAsync_v2, ptsz,
                       (CUarray to, std::size_t offset, const void* from, std::size_t bytes,
                        CUstream stream),
                       return copy_to_array(find_stream(stream, meaning), to, offset, from, bytes,
                                            cudaMemcpyHostToDevice, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyAtoH_v2, ptds,
                       (void* to, CUarray from, std::size_t offset, std::size_t bytes),
                       return copy_from_array(default_stream_of(meaning), to, from, offset, bytes,
                                              cudaMemcpyDeviceToHost, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyAtoHAsync_v2, ptsz,
                       (void* to, CUarray from, std::size_t offset, std::size_t bytes,
                        CUstream stream),
                       return copy_from_array(find_stream(stream, meaning), to, from, offset, bytes,
                                              cudaMemcpyDeviceToHost, Host::goes_on);)
MILLRACE_CONTEXT_TWINS(cuMemcpyDtoA_v2, ptds,
                       (CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes),
                       return copy_to_array(default_stream_of(meaning), to, offset, pointer(from),
                                            bytes, cudaMemcpyDeviceToDevice, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyAtoD_v2, ptds,
                       (CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes),
                       return copy_from_array(default_stream_of(meaning), pointer(to), from, offset,
                                              bytes, cudaMemcpyDeviceToDevice, Host::waits);)
MILLRACE_CONTEXT_TWINS(cuMemcpyAtoA_v2, ptds,
                       (CUarray to, std::size_t to_offset, CUarray from, std::size_t from_offset,
                        std::size_t bytes),
                       return copy_between_arrays(default_stream_of(meaning), to, to_offset, from,
                                                  from_offset, bytes);)
