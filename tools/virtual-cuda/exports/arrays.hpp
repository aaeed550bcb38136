#pragma once

#include "exports/entry.hpp"
#include "memory/arrays.hpp"

namespace millrace::virtual_cuda {

// Arrays, for the runtime and the driver. `function` is the caller, for what is refused. These take
// the lock.

/** @brief Allocates an array on the current GPU. */
cudaError_t allocate_array(const char* function, cudaArray_t* made, const ArrayShape& shape);
/** @param levels  as many as the shape has at most, if it is larger */
cudaError_t allocate_array(const char* function, cudaMipmappedArray_t* made,
                           const ArrayShape& shape, unsigned levels);
/** @return cudaErrorInvalidResourceHandle if it is none that was allocated by itself */
cudaError_t free_array(cudaArray_t array);
cudaError_t free_array(cudaMipmappedArray_t array);
/** @return cudaErrorInvalidResourceHandle if it is no array */
cudaError_t array_shape(cudaArray_const_t array, ArrayShape& shape);
/** @return cudaErrorInvalidResourceHandle if it is no mipmapped array, cudaErrorInvalidValue if it
 *          has no such level */
cudaError_t array_level(cudaArray_t* made, cudaMipmappedArray_const_t array, unsigned level);

/** @brief The answer to a question about planes, or about arrays that have no memory of their own:
 *         no array is one. @return cudaErrorInvalidResourceHandle if it is no array at all */
cudaError_t lacks_it(cudaArray_const_t array);
cudaError_t lacks_it(cudaMipmappedArray_const_t array);

}  // namespace millrace::virtual_cuda
