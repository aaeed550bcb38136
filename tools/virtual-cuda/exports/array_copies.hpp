#pragma once

#include <cstddef>

#include "exports/transfer.hpp"

namespace millrace::virtual_cuda {

/** The begin of a copy in an array: bytes and rows from its first element. */
struct Corner {
  cudaArray_const_t array;
  std::size_t x;
  std::size_t y;
};

// Copies of rows, whose widths and pitches are in bytes.

/** @param kind  an error if its target is the host */
cudaError_t copy_to_array(CUstream_st* stream, const Corner& to, const void* from,
                          std::size_t pitch, std::size_t width, std::size_t height,
                          cudaMemcpyKind kind, Host host);
/** @param kind  an error if its source is the host */
cudaError_t copy_from_array(CUstream_st* stream, void* to, std::size_t pitch, const Corner& from,
                            std::size_t width, std::size_t height, cudaMemcpyKind kind, Host host);
/** @param kind  an error if its source or target is the host */
cudaError_t copy_between_arrays(CUstream_st* stream, const Corner& to, const Corner& from,
                                std::size_t width, std::size_t height, cudaMemcpyKind kind);

}  // namespace millrace::virtual_cuda
