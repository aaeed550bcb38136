#pragma once

#include <memory>

#include "abi/cuda_runtime_api.h"

struct CUctx_st;

namespace millrace::virtual_cuda {

/**
 * @brief The value that chooses what conditional nodes run: what a cudaGraphConditionalHandle
 * stands for. A graph and what is instantiated of it share it. Guarded by the engine's lock.
 */
struct Condition {
  Condition(unsigned default_value, bool assign_default);
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;
  ~Condition();

  const cudaGraphConditionalHandle handle;
  const unsigned initial;
  const bool assigned;          ///< a launch begins with the initial value
  CUctx_st* context = nullptr;  ///< that the program named
  unsigned value;
};

/** @brief What cudaGraphSetConditional does in device code. A handle that is none changes nothing.
 */
void set_condition(cudaGraphConditionalHandle handle, unsigned value);

}  // namespace millrace::virtual_cuda
