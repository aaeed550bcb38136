#include "exports/textures.hpp"

#include "memory/arrays.hpp"

namespace millrace::virtual_cuda {
namespace {

bool has_array(const cudaResourceDesc& resource) {
  return resource.resType == cudaResourceTypeArray ||
         resource.resType == cudaResourceTypeMipmappedArray;
}

/** The shape of the resource's array. Null if it has no array. */
const ArrayShape* shape_of(const cudaResourceDesc& resource) {
  if (resource.resType == cudaResourceTypeArray) {
    const cudaArray* const array = runtime().arrays.find(resource.res.array.array);
    return array == nullptr ? nullptr : &array->shape;
  }
  const cudaMipmappedArray* const array = runtime().arrays.find(resource.res.mipmap.mipmap);
  return array == nullptr ? nullptr : &array->shape;
}

bool is_aligned(const void* address, std::size_t alignment) {
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % alignment == 0 &&
         runtime().memory.kind_of(address) != Memory::Kind::pageable;
}

/** Whether memory without an array may be a texture. */
bool is_legal_memory(const cudaResourceDesc& resource, const Gpu& gpu) {
  const cudaDeviceProp limits = gpu.properties();
  const bool linear = resource.resType == cudaResourceTypeLinear;
  ArrayFormat format;
  if (find_format(linear ? resource.res.linear.desc : resource.res.pitch2D.desc, format) !=
      cudaSuccess)
    return false;
  if (linear) {
    const auto& row = resource.res.linear;
    int most = 0;
    static_cast<void>(gpu.attribute(cudaDevAttrMaxTexture1DLinearWidth, most));
    return is_aligned(row.devPtr, limits.textureAlignment) &&
           row.sizeInBytes / format.element_bytes() <= static_cast<std::size_t>(most);
  }
  const auto& rows = resource.res.pitch2D;
  const auto most = [&](int of) { return static_cast<std::size_t>(limits.maxTexture2DLinear[of]); };
  return is_aligned(rows.devPtr, limits.textureAlignment) && rows.width != 0 && rows.height != 0 &&
         rows.width <= most(0) && rows.height <= most(1) && rows.pitchInBytes <= most(2) &&
         rows.pitchInBytes % limits.texturePitchAlignment == 0 &&
         rows.width * format.element_bytes() <= rows.pitchInBytes;
}

bool is_legal_resource(const cudaResourceDesc& resource) {
  if (resource.flags != 0) return false;
  switch (resource.resType) {
    case cudaResourceTypeArray:
    case cudaResourceTypeMipmappedArray:
      return shape_of(resource) != nullptr;
    case cudaResourceTypeLinear:
    case cudaResourceTypePitch2D:
      return is_legal_memory(resource, runtime().current_gpu());
  }
  return false;
}

bool is_filter(cudaTextureFilterMode mode) {
  return mode == cudaFilterModePoint || mode == cudaFilterModeLinear;
}

bool is_legal_texture(const cudaTextureDesc& texture, const cudaResourceDesc& resource) {
  for (const cudaTextureAddressMode mode : texture.addressMode)
    if (mode < cudaAddressModeWrap || mode > cudaAddressModeBorder) return false;
  if (!is_filter(texture.filterMode) || !is_filter(texture.mipmapFilterMode)) return false;
  if (texture.readMode != cudaReadModeElementType &&
      texture.readMode != cudaReadModeNormalizedFloat)
    return false;
  if (resource.resType == cudaResourceTypeMipmappedArray && texture.normalizedCoords == 0)
    return false;
  return texture.seamlessCubemap == 0 ||
         (has_array(resource) && (shape_of(resource)->flags & cudaArrayCubemap) != 0);
}

bool is_legal_view(const cudaResourceViewDesc& view, const cudaResourceDesc& resource) {
  return has_array(resource) && view.format >= cudaResViewFormatNone &&
         view.format <= cudaResViewFormatUnsignedBlockCompressed7;
}

cudaError_t destroy(unsigned long long object, bool surface) {
  const Lock lock = lock_engine();
  if (runtime().textures.find(object, surface) == nullptr) return cudaErrorInvalidValue;
  runtime().textures.remove(object);
  return cudaSuccess;
}

/** Calls `read` with the object. */
template <typename Read>
cudaError_t describe(unsigned long long object, bool surface, Read read) {
  const Lock lock = lock_engine();
  const TextureObject* const found = runtime().textures.find(object, surface);
  return found == nullptr ? cudaErrorInvalidValue : read(*found);
}

}  // namespace

cudaError_t create_texture(cudaTextureObject_t* made, const cudaResourceDesc* resource,
                           const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
  if (made == nullptr || resource == nullptr || texture == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (!is_legal_resource(*resource) || !is_legal_texture(*texture, *resource) ||
      (view != nullptr && !is_legal_view(*view, *resource)))
    return cudaErrorInvalidValue;
  TextureObject object{*resource, *texture, std::nullopt};
  if (view != nullptr) object.view = *view;
  *made = runtime().textures.add(object);
  return cudaSuccess;
}

cudaError_t create_surface(cudaSurfaceObject_t* made, const cudaResourceDesc* resource) {
  if (made == nullptr || resource == nullptr || resource->resType != cudaResourceTypeArray ||
      resource->flags != 0)
    return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const ArrayShape* const shape = shape_of(*resource);
  if (shape == nullptr) return cudaErrorInvalidResourceHandle;
  if ((shape->flags & cudaArraySurfaceLoadStore) == 0) return cudaErrorInvalidValue;
  *made = runtime().textures.add({*resource, std::nullopt, std::nullopt});
  return cudaSuccess;
}

cudaError_t destroy_texture(cudaTextureObject_t object) { return destroy(object, false); }
cudaError_t destroy_surface(cudaSurfaceObject_t object) { return destroy(object, true); }

cudaError_t texture_resource(cudaTextureObject_t object, cudaResourceDesc& out) {
  return describe(object, false, [&](const TextureObject& found) {
    out = found.resource;
    return cudaSuccess;
  });
}

cudaError_t surface_resource(cudaSurfaceObject_t object, cudaResourceDesc& out) {
  return describe(object, true, [&](const TextureObject& found) {
    out = found.resource;
    return cudaSuccess;
  });
}

cudaError_t texture_description(cudaTextureObject_t object, cudaTextureDesc& out) {
  return describe(object, false, [&](const TextureObject& found) {
    out = *found.texture;
    return cudaSuccess;
  });
}

cudaError_t texture_view(cudaTextureObject_t object, cudaResourceViewDesc& out) {
  return describe(object, false, [&](const TextureObject& found) {
    if (!found.view) return cudaErrorInvalidValue;
    out = *found.view;
    return cudaSuccess;
  });
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

MILLRACE_CALL(cudaDestroyTextureObject, (cudaTextureObject_t object),
              return destroy_texture(object);)
MILLRACE_CALL(cudaDestroySurfaceObject, (cudaSurfaceObject_t object),
              return destroy_surface(object);)
MILLRACE_CALL(cudaGetTextureObjectTextureDesc, (cudaTextureDesc * out, cudaTextureObject_t object),
              return out == nullptr ? cudaErrorInvalidValue : texture_description(object, *out);)
