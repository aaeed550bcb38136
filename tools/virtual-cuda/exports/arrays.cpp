#include "exports/arrays.hpp"

#include <algorithm>

#include "check/checker.hpp"
#include "exports/refuse.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr unsigned kMade =
    cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather;
constexpr unsigned kElsewhere = CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                                CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING |
                                CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;

std::size_t bytes_of(const cudaArray& array) { return array.shape.bytes(); }
std::size_t bytes_of(const cudaMipmappedArray& array) {
  const cudaArray& last = *array.levels.back();
  return static_cast<std::size_t>(last.address - array.address) + bytes_of(last);
}

template <typename Handle, typename Make>
cudaError_t allocate(const char* function, Handle* made, const ArrayShape& shape, bool mipmapped,
                     Make make) {
  if (made == nullptr || (shape.flags & ~(kMade | kElsewhere)) != 0) return cudaErrorInvalidValue;
  *made = nullptr;
  if ((shape.flags & kElsewhere) != 0)
    return refuse(function, "arrays without memory of their own, and those of graphics and video");
  Lock lock = lock_engine();
  spend(lock, Call::allocate);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  const Gpu& gpu = runtime().current_gpu();
  if (!is_legal(shape, gpu.properties(), mipmapped)) return cudaErrorInvalidValue;
  const Handle array = make(gpu.ordinal);
  if (array == nullptr) return cudaErrorMemoryAllocation;
  if (Checker* const check = checker()) check->allocated(array->address, bytes_of(*array));
  *made = array;
  return cudaSuccess;
}

bool is_level(const cudaArray& array) { return array.is_level; }
bool is_level(const cudaMipmappedArray&) { return false; }

template <typename Handle>
cudaError_t release(Handle handle) {
  Lock lock = lock_engine();
  spend(lock, Call::free);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  Arrays& arrays = runtime().arrays;
  const auto* array = arrays.find(handle);
  if (array == nullptr || is_level(*array)) return cudaErrorInvalidResourceHandle;
  Gpu& gpu = *runtime().gpus[array->gpu];
  if (gpu.profile.free_synchronizes) {
    synchronize(lock, gpu);
    array = arrays.find(handle);  // the wait may have released the lock
    if (array == nullptr) return cudaErrorInvalidResourceHandle;
  }
  if (Checker* const check = checker()) check->freed(array->address, true);
  arrays.destroy(*array);
  return cudaSuccess;
}

template <typename Handle>
cudaError_t answer_that_it_lacks(Handle handle) {
  const Lock lock = lock_engine();
  return runtime().arrays.find(handle) == nullptr ? cudaErrorInvalidResourceHandle
                                                  : cudaErrorInvalidValue;
}

/** The runtime documents only this error for a wrong handle. */
cudaError_t as_value(cudaError_t error) {
  return error == cudaErrorInvalidResourceHandle ? cudaErrorInvalidValue : error;
}

/** @param make  uses the shape */
template <typename Make>
cudaError_t with_shape(const char* function, const cudaChannelFormatDesc* format,
                       const cudaExtent& extent, unsigned flags, Make make) {
  if (format == nullptr) return cudaErrorInvalidValue;
  ArrayShape shape{{}, extent, flags};
  const cudaError_t error = find_format(*format, shape.format);
  if (error == cudaErrorNotSupported)
    return refuse(function, "formats of blocks, planes and parts of bytes");
  return error != cudaSuccess ? error : make(shape);
}

cudaError_t allocate_rows(cudaArray_t* made, const cudaChannelFormatDesc* format, std::size_t width,
                          std::size_t height, unsigned flags) {
  // Layered arrays and cubemaps need three extents.
  if ((flags & (cudaArrayLayered | cudaArrayCubemap)) != 0) return cudaErrorInvalidValue;
  return with_shape(
      "cudaMallocArray", format, {width, height, 0}, flags,
      [&](const ArrayShape& shape) { return allocate_array("cudaMallocArray", made, shape); });
}

cudaError_t describe(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags,
                     cudaArray_const_t array) {
  ArrayShape shape;
  if (const cudaError_t error = array_shape(array, shape); error != cudaSuccess)
    return as_value(error);
  if (format != nullptr) *format = shape.format.description();
  if (extent != nullptr) *extent = shape.extent;
  if (flags != nullptr) *flags = shape.flags;
  return cudaSuccess;
}

}  // namespace

cudaError_t allocate_array(const char* function, cudaArray_t* made, const ArrayShape& shape) {
  return allocate(function, made, shape, false,
                  [&](unsigned gpu) { return runtime().arrays.make(gpu, shape); });
}

cudaError_t allocate_array(const char* function, cudaMipmappedArray_t* made,
                           const ArrayShape& shape, unsigned levels) {
  return allocate(function, made, shape, true, [&](unsigned gpu) {
    return runtime().arrays.make(gpu, shape, std::clamp(levels, 1U, shape.most_levels()));
  });
}

cudaError_t free_array(cudaArray_t array) { return release<cudaArray_const_t>(array); }
cudaError_t free_array(cudaMipmappedArray_t array) {
  return release<cudaMipmappedArray_const_t>(array);
}

cudaError_t array_shape(cudaArray_const_t handle, ArrayShape& shape) {
  const Lock lock = lock_engine();
  const cudaArray* const array = runtime().arrays.find(handle);
  if (array == nullptr) return cudaErrorInvalidResourceHandle;
  shape = array->shape;
  return cudaSuccess;
}

cudaError_t array_level(cudaArray_t* made, cudaMipmappedArray_const_t handle, unsigned level) {
  const Lock lock = lock_engine();
  const cudaMipmappedArray* const array = runtime().arrays.find(handle);
  if (array == nullptr) return cudaErrorInvalidResourceHandle;
  if (made == nullptr || level >= array->levels.size()) return cudaErrorInvalidValue;
  *made = array->levels[level].get();
  return cudaSuccess;
}

cudaError_t lacks_it(cudaArray_const_t array) { return answer_that_it_lacks(array); }
cudaError_t lacks_it(cudaMipmappedArray_const_t array) { return answer_that_it_lacks(array); }

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

MILLRACE_CALL(cudaMallocArray,
              (cudaArray_t * made, const cudaChannelFormatDesc* format, std::size_t width,
               std::size_t height, unsigned flags),
              return allocate_rows(made, format, width, height, flags);)
MILLRACE_CALL(cudaMalloc3DArray,
              (cudaArray_t * made, const cudaChannelFormatDesc* format, cudaExtent extent,
               unsigned flags),
              return with_shape("cudaMalloc3DArray", format, extent, flags,
                                [&](const ArrayShape& shape) {
                                  return allocate_array("cudaMalloc3DArray", made, shape);
                                });)
MILLRACE_CALL(cudaMallocMipmappedArray,
              (cudaMipmappedArray_t * made, const cudaChannelFormatDesc* format, cudaExtent extent,
               unsigned levels, unsigned flags),
              return with_shape("cudaMallocMipmappedArray", format, extent, flags,
                                [&](const ArrayShape& shape) {
                                  return allocate_array("cudaMallocMipmappedArray", made, shape,
                                                        levels);
                                });)
MILLRACE_CALL(cudaFreeArray, (cudaArray_t array),
              return array == nullptr ? cudaSuccess : as_value(free_array(array));)
MILLRACE_CALL(cudaFreeMipmappedArray, (cudaMipmappedArray_t array),
              return array == nullptr ? cudaSuccess : as_value(free_array(array));)
MILLRACE_CALL(cudaGetMipmappedArrayLevel,
              (cudaArray_t * level, cudaMipmappedArray_const_t array, unsigned number),
              return array_level(level, array, number);)
MILLRACE_CALL(cudaArrayGetInfo,
              (cudaChannelFormatDesc * format, cudaExtent* extent, unsigned* flags,
               cudaArray_t array),
              return describe(format, extent, flags, array);)
MILLRACE_CALL(cudaGetChannelDesc, (cudaChannelFormatDesc * format, cudaArray_const_t array),
              return format == nullptr ? cudaErrorInvalidValue
                                       : describe(format, nullptr, nullptr, array);)
MILLRACE_CALL(cudaArrayGetPlane, (cudaArray_t*, cudaArray_t array, unsigned),
              return lacks_it(array);)
MILLRACE_CALL(cudaArrayGetMemoryRequirements,
              (cudaArrayMemoryRequirements*, cudaArray_t array, int device),
              return is_gpu(device) ? as_value(lacks_it(array)) : cudaErrorInvalidDevice;)
MILLRACE_CALL(cudaMipmappedArrayGetMemoryRequirements,
              (cudaArrayMemoryRequirements*, cudaMipmappedArray_t array, int device),
              return is_gpu(device) ? as_value(lacks_it(array)) : cudaErrorInvalidDevice;)
MILLRACE_CALL(cudaArrayGetSparseProperties, (void*, cudaArray_t array),
              return as_value(lacks_it(array));)
MILLRACE_CALL(cudaMipmappedArrayGetSparseProperties, (void*, cudaMipmappedArray_t array),
              return as_value(lacks_it(array));)
