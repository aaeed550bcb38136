#pragma once

#include "test/virtual_cuda/laws/gpu.hpp"

namespace millrace::test {

/// A format of `channels` unsigned components.
inline cudaChannelFormatDesc unsigned_format(int bits = 8, int channels = 1) {
  const auto of = [&](int channel) { return channel < channels ? bits : 0; };
  return cudaCreateChannelDesc(of(0), of(1), of(2), of(3), cudaChannelFormatKindUnsigned);
}

class Array {
 public:
  explicit Array(cudaExtent extent, cudaChannelFormatDesc format = unsigned_format(),
                 unsigned flags = cudaArrayDefault) {
    CUDA_OK(cudaMalloc3DArray(&array_, &format, extent, flags));
  }
  ~Array() { cudaFreeArray(array_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  operator cudaArray_t() const { return array_; }  // NOLINT: as a handle

 private:
  cudaArray_t array_ = nullptr;
};

/// A copy of a box of `extent`, from an array or memory to an array or memory.
inline cudaMemcpy3DParms box_of(cudaExtent extent, cudaMemcpyKind kind = cudaMemcpyDefault) {
  cudaMemcpy3DParms box{};
  box.extent = extent;
  box.kind = kind;
  return box;
}

/// Bytes of memory without gaps, `width` of them in a row and `height` rows in a layer.
inline cudaPitchedPtr packed(const void* memory, std::size_t width, std::size_t height) {
  return {const_cast<void*>(memory), width, width, height};
}

/// The contents of an array of at most two dimensions.
inline std::vector<unsigned char> read(const Array& array, std::size_t width, std::size_t height) {
  std::vector<unsigned char> data(width * height);
  CUDA_OK(cudaMemcpy2DFromArray(data.data(), width, array, 0, 0, width, height,
                                cudaMemcpyDeviceToHost));
  return data;
}

}  // namespace millrace::test
