#pragma once

#include <cstdint>

namespace millrace::virtual_cuda {
struct Gpu;
}  // namespace millrace::virtual_cuda

/**
 * What a CUcontext points to. The primary context of a GPU is a member of the Gpu; the others are
 * views of it: streams, events, memory and modules belong to the GPU.
 */
struct CUctx_st {
  static constexpr std::uint32_t kMagic = 0x43545854;

  std::uint32_t magic = 0;
  bool primary = false;
  unsigned flags = 0;
  std::uint64_t id = 0;
  millrace::virtual_cuda::Gpu* gpu = nullptr;
};
