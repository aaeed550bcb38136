#pragma once

#include "driver/entry.hpp"
#include "engine/context.hpp"

namespace millrace::virtual_cuda {

[[nodiscard]] inline bool valid(CUcontext context) noexcept {
  return context != nullptr && context->magic == CUctx_st::kMagic;
}

/** @brief The context on top of the calling thread's stack; null if the stack is empty. */
[[nodiscard]] CUcontext current_context(const Thread& thread) noexcept;

}  // namespace millrace::virtual_cuda
