#include "exports/textures.hpp"

#include <algorithm>

#include "driver/entry.hpp"
#include "memory/array_format.hpp"

using namespace millrace::virtual_cuda;

namespace {

// Conversions between the descriptions of the driver and the runtime, whose fields differ.

cudaError_t format_of(CUarray_format format, unsigned channels, cudaChannelFormatDesc& out) {
  ArrayFormat found;
  if (find_format(format, channels, found) != cudaSuccess) return cudaErrorInvalidValue;
  out = found.description();
  return cudaSuccess;
}

cudaError_t from_driver(const CUDA_RESOURCE_DESC& all, cudaResourceDesc& out) {
  out = {};
  out.resType = all.resType;
  out.flags = all.flags;
  switch (all.resType) {
    case cudaResourceTypeArray:
      out.res.array.array = all.res.array.hArray;
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out.res.mipmap.mipmap = all.res.mipmap.hMipmappedArray;
      return cudaSuccess;
    case cudaResourceTypeLinear: {
      const auto& row = all.res.linear;
      out.res.linear.devPtr = pointer(row.devPtr);
      out.res.linear.sizeInBytes = row.sizeInBytes;
      return format_of(row.format, row.numChannels, out.res.linear.desc);
    }
    case cudaResourceTypePitch2D: {
      const auto& rows = all.res.pitch2D;
      out.res.pitch2D.devPtr = pointer(rows.devPtr);
      out.res.pitch2D.width = rows.width;
      out.res.pitch2D.height = rows.height;
      out.res.pitch2D.pitchInBytes = rows.pitchInBytes;
      return format_of(rows.format, rows.numChannels, out.res.pitch2D.desc);
    }
  }
  return cudaErrorInvalidValue;
}

void to_driver(const cudaResourceDesc& all, CUDA_RESOURCE_DESC& out) {
  out = {};
  out.resType = all.resType;
  ArrayFormat format;
  switch (all.resType) {
    case cudaResourceTypeArray:
      out.res.array.hArray = all.res.array.array;
      break;
    case cudaResourceTypeMipmappedArray:
      out.res.mipmap.hMipmappedArray = all.res.mipmap.mipmap;
      break;
    case cudaResourceTypeLinear:
      static_cast<void>(find_format(all.res.linear.desc, format));
      out.res.linear.devPtr = address_of(all.res.linear.devPtr);
      out.res.linear.format = format.format;
      out.res.linear.numChannels = format.channels;
      out.res.linear.sizeInBytes = all.res.linear.sizeInBytes;
      break;
    case cudaResourceTypePitch2D:
      static_cast<void>(find_format(all.res.pitch2D.desc, format));
      out.res.pitch2D.devPtr = address_of(all.res.pitch2D.devPtr);
      out.res.pitch2D.format = format.format;
      out.res.pitch2D.numChannels = format.channels;
      out.res.pitch2D.width = all.res.pitch2D.width;
      out.res.pitch2D.height = all.res.pitch2D.height;
      out.res.pitch2D.pitchInBytes = all.res.pitch2D.pitchInBytes;
      break;
  }
}

constexpr unsigned kTextureFlags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                   CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                                   CU_TRSF_SEAMLESS_CUBEMAP;

cudaError_t from_driver(const CUDA_TEXTURE_DESC& all, cudaTextureDesc& out) {
  if ((all.flags & ~kTextureFlags) != 0) return cudaErrorInvalidValue;
  const auto has = [&](unsigned flag) { return (all.flags & flag) != 0 ? 1 : 0; };
  out = {};
  std::copy(std::begin(all.addressMode), std::end(all.addressMode), out.addressMode);
  std::copy(std::begin(all.borderColor), std::end(all.borderColor), out.borderColor);
  out.filterMode = all.filterMode;
  out.readMode =
      has(CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  out.normalizedCoords = has(CU_TRSF_NORMALIZED_COORDINATES);
  out.sRGB = has(CU_TRSF_SRGB);
  out.disableTrilinearOptimization = has(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  out.seamlessCubemap = has(CU_TRSF_SEAMLESS_CUBEMAP);
  out.maxAnisotropy = all.maxAnisotropy;
  out.mipmapFilterMode = all.mipmapFilterMode;
  out.mipmapLevelBias = all.mipmapLevelBias;
  out.minMipmapLevelClamp = all.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = all.maxMipmapLevelClamp;
  return cudaSuccess;
}

void to_driver(const cudaTextureDesc& all, CUDA_TEXTURE_DESC& out) {
  out = {};
  const auto flag = [&](bool set, unsigned value) {
    if (set) out.flags |= value;
  };
  std::copy(std::begin(all.addressMode), std::end(all.addressMode), out.addressMode);
  std::copy(std::begin(all.borderColor), std::end(all.borderColor), out.borderColor);
  out.filterMode = all.filterMode;
  flag(all.readMode == cudaReadModeElementType, CU_TRSF_READ_AS_INTEGER);
  flag(all.normalizedCoords != 0, CU_TRSF_NORMALIZED_COORDINATES);
  flag(all.sRGB != 0, CU_TRSF_SRGB);
  flag(all.disableTrilinearOptimization != 0, CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  flag(all.seamlessCubemap != 0, CU_TRSF_SEAMLESS_CUBEMAP);
  out.maxAnisotropy = all.maxAnisotropy;
  out.mipmapFilterMode = all.mipmapFilterMode;
  out.mipmapLevelBias = all.mipmapLevelBias;
  out.minMipmapLevelClamp = all.minMipmapLevelClamp;
  out.maxMipmapLevelClamp = all.maxMipmapLevelClamp;
}

cudaError_t create(CUtexObject* made, const CUDA_RESOURCE_DESC* resource,
                   const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  if (resource == nullptr || texture == nullptr) return cudaErrorInvalidValue;
  cudaResourceDesc of{};
  cudaTextureDesc how{};
  if (const cudaError_t error = from_driver(*resource, of); error != cudaSuccess) return error;
  if (const cudaError_t error = from_driver(*texture, how); error != cudaSuccess) return error;
  return create_texture(made, &of, &how, view);
}

cudaError_t create(CUsurfObject* made, const CUDA_RESOURCE_DESC* resource) {
  if (resource == nullptr) return cudaErrorInvalidValue;
  cudaResourceDesc of{};
  const cudaError_t error = from_driver(*resource, of);
  return error != cudaSuccess ? error : create_surface(made, &of);
}

/** Converts the description from `read` to the driver's. */
template <typename Description, typename Out, typename Read>
cudaError_t describe(Out* out, Read read) {
  if (out == nullptr) return cudaErrorInvalidValue;
  Description found{};
  const cudaError_t error = read(found);
  if (error == cudaSuccess) to_driver(found, *out);
  return error;
}

}  // namespace

MILLRACE_CONTEXT_CALL(cuTexObjectCreate,
                      (CUtexObject * made, const CUDA_RESOURCE_DESC* resource,
                       const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view),
                      return create(made, resource, texture, view);)
MILLRACE_CONTEXT_CALL(cuTexObjectDestroy, (CUtexObject object), return destroy_texture(object);)
MILLRACE_CONTEXT_CALL(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC * out, CUtexObject object),
                      return describe<cudaResourceDesc>(out, [&](cudaResourceDesc& all) {
                        return texture_resource(object, all);
                      });)
MILLRACE_CONTEXT_CALL(cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC * out, CUtexObject object),
                      return describe<cudaTextureDesc>(out, [&](cudaTextureDesc& all) {
                        return texture_description(object, all);
                      });)
MILLRACE_CONTEXT_CALL(cuTexObjectGetResourceViewDesc,
                      (CUDA_RESOURCE_VIEW_DESC * out, CUtexObject object),
                      return out == nullptr ? cudaErrorInvalidValue : texture_view(object, *out);)
MILLRACE_CONTEXT_CALL(cuSurfObjectCreate, (CUsurfObject * made, const CUDA_RESOURCE_DESC* resource),
                      return create(made, resource);)
MILLRACE_CONTEXT_CALL(cuSurfObjectDestroy, (CUsurfObject object), return destroy_surface(object);)
MILLRACE_CONTEXT_CALL(cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC * out, CUsurfObject object),
                      return describe<cudaResourceDesc>(out, [&](cudaResourceDesc& all) {
                        return surface_resource(object, all);
                      });)
