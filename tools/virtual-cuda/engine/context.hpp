#pragma once

#include <cstdint>

namespace millrace::virtual_cuda {
struct Gpu;
}  // namespace millrace::virtual_cuda

/**
 * The object that a CUcontext points to. A GPU's primary context is a member of its Gpu. Other
 * contexts are views of it, because streams, events, memory and modules belong to the GPU.
 */
struct CUctx_st {
  static constexpr std::uint32_t kMagic = 0x43545854;

  std::uint32_t magic = 0;
  bool primary = false;
  unsigned flags = 0;
  std::uint64_t id = 0;
  millrace::virtual_cuda::Gpu* gpu = nullptr;
};
