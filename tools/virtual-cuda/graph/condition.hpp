#pragma once

#include <memory>

#include "abi/cuda_runtime_api.h"

struct CUctx_st;

namespace millrace::virtual_cuda {

/**
 * @brief The value of a cudaGraphConditionalHandle, which selects the work of conditional nodes. A
 * graph and its executable graphs share it. Guarded by the engine's lock.
 */
struct Condition {
  Condition(unsigned default_value, bool assign_default);
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;
  ~Condition();

  const cudaGraphConditionalHandle handle;
  const unsigned initial;
  const bool assigned;          ///< a launch begins with the initial value
  CUctx_st* context = nullptr;  ///< context that the program named
  unsigned value;
};

/** @brief Implements cudaGraphSetConditional of device code. An unknown handle has no effect. */
void set_condition(cudaGraphConditionalHandle handle, unsigned value);

}  // namespace millrace::virtual_cuda
