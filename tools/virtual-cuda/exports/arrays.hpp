#pragma once

#include "exports/entry.hpp"
#include "memory/arrays.hpp"

namespace millrace::virtual_cuda {

// Functions for arrays, for the runtime and the driver. `function` names the caller in messages.
// They take the lock.

/** @brief Allocates an array on the current GPU. */
cudaError_t allocate_array(const char* function, cudaArray_t* made, const ArrayShape& shape);
/** @param levels  limited to the maximum of the shape */
cudaError_t allocate_array(const char* function, cudaMipmappedArray_t* made,
                           const ArrayShape& shape, unsigned levels);
/** @return cudaErrorInvalidResourceHandle if `array` is no array, or a level of one */
cudaError_t free_array(cudaArray_t array);
cudaError_t free_array(cudaMipmappedArray_t array);
/** @return cudaErrorInvalidResourceHandle if `array` is no array */
cudaError_t array_shape(cudaArray_const_t array, ArrayShape& shape);
/** @return cudaErrorInvalidResourceHandle if `array` is no mipmapped array, cudaErrorInvalidValue
 *          if it lacks the level */
cudaError_t array_level(cudaArray_t* made, cudaMipmappedArray_const_t array, unsigned level);

/** @brief The answer to queries about planes and about arrays without their own memory. No array is
 *         of such a kind. @return cudaErrorInvalidResourceHandle if `array` is no array */
cudaError_t lacks_it(cudaArray_const_t array);
cudaError_t lacks_it(cudaMipmappedArray_const_t array);

}  // namespace millrace::virtual_cuda
