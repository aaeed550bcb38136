#pragma once

#include <cstring>

#include "exports/textures.hpp"

/**
 * @file
 * Functions whose parameters describe resources and views. These structs are shorter in CUDA 12, so
 * each runtime defines the functions for its layout.
 */

namespace millrace::virtual_cuda {

/** @brief A description from a program's first `bytes` bytes. The rest is zero. */
template <typename Description>
class Shorter {
 public:
  Shorter(const void* given, std::size_t bytes) : given_{given != nullptr} {
    if (given_) std::memcpy(&whole_, given, bytes);
  }
  /** @brief Null if the program gave no description. */
  [[nodiscard]] const Description* get() const noexcept { return given_ ? &whole_ : nullptr; }

 private:
  Description whole_{};
  bool given_;
};

/** @brief Copies the first `bytes` bytes of the description from `read` to the program. */
template <typename Description, typename Read>
cudaError_t give_shorter(void* out, std::size_t bytes, Read read) {
  if (out == nullptr) return cudaErrorInvalidValue;
  Description whole{};
  const cudaError_t error = read(whole);
  if (error == cudaSuccess) std::memcpy(out, &whole, bytes);
  return error;
}

}  // namespace millrace::virtual_cuda

/** @param resource_bytes, view_bytes  sizes of cudaResourceDesc and cudaResourceViewDesc */
#define MILLRACE_TEXTURE_CALLS(resource_bytes, view_bytes)                                         \
  MILLRACE_CALL(cudaCreateTextureObject,                                                           \
                (cudaTextureObject_t * made, const void* resource, const cudaTextureDesc* texture, \
                 const void* view),                                                                \
                const Shorter<cudaResourceDesc> whole{resource, resource_bytes};                   \
                const Shorter<cudaResourceViewDesc> whole_view{view, view_bytes};                  \
                return create_texture(made, whole.get(), texture, whole_view.get());)              \
  MILLRACE_CALL(cudaCreateSurfaceObject, (cudaSurfaceObject_t * made, const void* resource),       \
                const Shorter<cudaResourceDesc> whole{resource, resource_bytes};                   \
                return create_surface(made, whole.get());)                                         \
  MILLRACE_CALL(                                                                                   \
      cudaGetTextureObjectResourceDesc, (void* out, cudaTextureObject_t object),                   \
      return give_shorter<cudaResourceDesc>(out, resource_bytes, [&](cudaResourceDesc& all) {      \
        return texture_resource(object, all);                                                      \
      });)                                                                                         \
  MILLRACE_CALL(                                                                                   \
      cudaGetSurfaceObjectResourceDesc, (void* out, cudaSurfaceObject_t object),                   \
      return give_shorter<cudaResourceDesc>(out, resource_bytes, [&](cudaResourceDesc& all) {      \
        return surface_resource(object, all);                                                      \
      });)                                                                                         \
  MILLRACE_CALL(                                                                                   \
      cudaGetTextureObjectResourceViewDesc, (void* out, cudaTextureObject_t object),               \
      return give_shorter<cudaResourceViewDesc>(                                                   \
          out, view_bytes, [&](cudaResourceViewDesc& all) { return texture_view(object, all); });)
