// Copies of boxes, which cudaMemcpy3DParms describe, between memory and arrays of all kinds.

#include <memory>

#include "exports/transfer.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr std::size_t kMostPitch = 0x7fffffff;  // cudaDeviceProp::memPitch

/** One end of a copy: an array or memory. */
struct End {
  cudaArray_const_t array;
  const cudaPitchedPtr& memory;
  const cudaPos& at;
};

bool has(std::size_t extent, std::size_t at, std::size_t count) {
  return at <= extent && count <= extent - at;
}

Plane plane_in_memory(const End& end) {
  Plane found = plane(end.memory.ptr, end.memory.pitch, end.memory.ysize);
  if (found.base != nullptr)
    found.base += end.at.x + end.at.y * found.pitch + end.at.z * found.slice;
  return found;
}

/** @param box  extent of the copy, in elements of the array */
cudaError_t plane_in_array(const End& end, const cudaExtent& box, Plane& found) {
  const cudaArray* const array = runtime().arrays.find(end.array);
  if (array == nullptr || end.memory.ptr != nullptr) return cudaErrorInvalidValue;
  const ArrayShape& shape = array->shape;
  if (!has(shape.extent.width, end.at.x, box.width) || !has(shape.rows(), end.at.y, box.height) ||
      !has(shape.layers(), end.at.z, box.depth))
    return cudaErrorInvalidValue;
  found = plane(array->address, shape.row_bytes(), shape.rows());
  found.base +=
      end.at.x * shape.format.element_bytes() + end.at.y * found.pitch + end.at.z * found.slice;
  return cudaSuccess;
}

cudaError_t plane_of(const End& end, const cudaExtent& box, Plane& found) {
  if (end.array != nullptr) return plane_in_array(end, box, found);
  found = plane_in_memory(end);
  return cudaSuccess;
}

/** Corrects the kind of a copy, because an array is always on a GPU. */
cudaMemcpyKind with_arrays(cudaMemcpyKind kind, bool to_array, bool from_array) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDeviceToDevice) return kind;
  const bool to_device =
      to_array || kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device =
      from_array || kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_device) return from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

/** 0 if `handle` is not the handle of an array. */
std::size_t element_bytes(cudaArray_const_t handle) {
  const cudaArray* const array = runtime().arrays.find(handle);
  return array == nullptr ? 0 : array->shape.format.element_bytes();
}

/** Bytes of an element of the arrays in a copy. 1 for a copy without arrays; 0 if the arrays differ
 *  or a handle is not the handle of an array. */
std::size_t element_bytes(const cudaMemcpy3DParms& box) {
  if (box.srcArray == nullptr && box.dstArray == nullptr) return 1;
  const std::size_t to = element_bytes(box.dstArray);
  const std::size_t from = element_bytes(box.srcArray);
  if (box.srcArray == nullptr) return to;
  return box.dstArray == nullptr || to == from ? from : 0;
}

/** Finds the planes of a copy with an array, and the bytes of the array's elements. */
cudaError_t find_planes(const cudaMemcpy3DParms& parameters, CopyWork& work, std::size_t& element) {
  const Lock lock = lock_engine();
  element = element_bytes(parameters);
  if (element == 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = plane_of(
          {parameters.dstArray, parameters.dstPtr, parameters.dstPos}, parameters.extent, work.to);
      error != cudaSuccess)
    return error;
  if (const cudaError_t error =
          plane_of({parameters.srcArray, parameters.srcPtr, parameters.srcPos}, parameters.extent,
                   work.from);
      error != cudaSuccess)
    return error;
  if (work.to.pitch > kMostPitch || work.from.pitch > kMostPitch) return cudaErrorInvalidPitchValue;
  work.described = std::make_shared<const cudaMemcpy3DParms>(parameters);
  return cudaSuccess;
}

}  // namespace

cudaError_t from_parameters(const cudaMemcpy3DParms& parameters, CopyWork& work) {
  const bool to_array = parameters.dstArray != nullptr;
  const bool from_array = parameters.srcArray != nullptr;
  std::size_t element = 1;
  if (to_array || from_array) {
    const cudaError_t error = find_planes(parameters, work, element);
    if (error != cudaSuccess) return error;
  } else {
    work.to = plane_in_memory({nullptr, parameters.dstPtr, parameters.dstPos});
    work.from = plane_in_memory({nullptr, parameters.srcPtr, parameters.srcPos});
  }
  work.width = parameters.extent.width * element;
  work.height = parameters.extent.height;
  work.depth = parameters.extent.depth;
  work.kind = with_arrays(parameters.kind, to_array, from_array);
  const bool rows = work.height > 1 || work.depth > 1;
  if (rows && (work.width > work.to.pitch || work.width > work.from.pitch))
    return cudaErrorInvalidPitchValue;
  return cudaSuccess;
}

cudaMemcpy3DParms to_parameters(const CopyWork& work) {
  if (work.described != nullptr) return *work.described;
  cudaMemcpy3DParms parameters{};
  const auto end = [](const Plane& memory) {
    const std::size_t rows = memory.pitch == 0 ? 0 : memory.slice / memory.pitch;
    return cudaPitchedPtr{memory.base, memory.pitch, memory.pitch, rows};
  };
  parameters.dstPtr = end(work.to);
  parameters.srcPtr = end(work.from);
  parameters.extent = {work.width, work.height, work.depth};
  parameters.kind = work.kind;
  return parameters;
}

cudaError_t in_elements(cudaMemcpy3DParms& box) {
  const Lock lock = lock_engine();
  const std::size_t element = element_bytes(box);
  if (element == 0 || box.extent.width % element != 0) return cudaErrorInvalidValue;
  box.extent.width /= element;
  for (const auto& [array, at] :
       {std::pair{box.srcArray, &box.srcPos}, std::pair{box.dstArray, &box.dstPos}}) {
    if (array == nullptr) continue;
    if (at->x % element != 0) return cudaErrorInvalidValue;
    at->x /= element;
  }
  return cudaSuccess;
}

cudaError_t in_bytes(cudaMemcpy3DParms& box) {
  const Lock lock = lock_engine();
  const std::size_t element = element_bytes(box);
  if (element == 0) return cudaErrorInvalidValue;
  box.extent.width *= element;
  if (box.srcArray != nullptr) box.srcPos.x *= element;
  if (box.dstArray != nullptr) box.dstPos.x *= element;
  return cudaSuccess;
}

cudaError_t copy_bytes_of_box(CUstream_st* stream, cudaMemcpy3DParms box, Host host) {
  if (const cudaError_t error = in_elements(box); error != cudaSuccess) return error;
  CopyWork work;
  const cudaError_t error = from_parameters(box, work);
  return error != cudaSuccess ? error : copy(stream, std::move(work), host);
}

}  // namespace millrace::virtual_cuda
