#pragma once

#include "abi/cuda_driver.h"

namespace millrace::virtual_cuda {

// Conversions between the driver's copies of boxes, in bytes, and the runtime's, in elements of
// arrays. They take the engine's lock.

/** @return an error for an unknown kind of memory, for arrays that do not fit, and for a null
 *          pointer */
cudaError_t from_box(const CUDA_MEMCPY3D* all, cudaMemcpy3DParms& out);
/** @return an error if an array was freed */
cudaError_t to_box(cudaMemcpy3DParms parameters, CUDA_MEMCPY3D& out);
/** @brief A box with one layer. */
[[nodiscard]] CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D& rows);

}  // namespace millrace::virtual_cuda
