#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

// Texture and surface objects, for the runtimes and the driver, whose descriptions have different
// layouts. The functions take the lock.

cudaError_t create_texture(cudaTextureObject_t* made, const cudaResourceDesc* resource,
                           const cudaTextureDesc* texture, const cudaResourceViewDesc* view);
cudaError_t create_surface(cudaSurfaceObject_t* made, const cudaResourceDesc* resource);
cudaError_t destroy_texture(cudaTextureObject_t object);
cudaError_t destroy_surface(cudaSurfaceObject_t object);

/** @return an error if `object` does not exist */
cudaError_t texture_resource(cudaTextureObject_t object, cudaResourceDesc& out);
cudaError_t surface_resource(cudaSurfaceObject_t object, cudaResourceDesc& out);
cudaError_t texture_description(cudaTextureObject_t object, cudaTextureDesc& out);
/** @return an error if `object` does not exist or has no view */
cudaError_t texture_view(cudaTextureObject_t object, cudaResourceViewDesc& out);

}  // namespace millrace::virtual_cuda
