#pragma once

#include <stddef.h>

/**
 * The C interface between Millrace's programs and PyTorch's own caching allocator.
 *
 * shim.cpp implements it. peer.py compiles shim.cpp for the PyTorch of the machine. Programs load
 * the result at run time, so that they do not link PyTorch.
 */
#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of one device in PyTorch's `memory_stats`: current and peak. */
struct MillraceTorchStatistics {
  size_t requested, requested_peak;
  size_t allocated, allocated_peak;
  size_t active, active_peak;
  size_t reserved, reserved_peak;
  size_t segments;
};

struct MillraceTorch {
  /** The version of PyTorch. */
  const char* version;
  /** Allocates memory for `stream` (a cudaStream_t). Returns null and sets `error` if PyTorch
   * throws. */
  void* (*allocate)(size_t bytes, void* stream);
  /** Like `Tensor.record_stream`. The memory must come from `allocate`. */
  void (*record_stream)(void* memory, void* stream);
  /** Like dropping the last reference to a tensor. The memory must come from `allocate`. */
  void (*free)(void* memory);
  /** The calls that a tensor's storage makes, without the bookkeeping of `allocate`. */
  void* (*raw_allocate)(size_t bytes, void* stream);
  void (*raw_free)(void* memory);
  void (*statistics)(struct MillraceTorchStatistics* result);
  void (*reset_peaks)(void);
  /** Releases free segments to the driver. */
  void (*empty_cache)(void);
  /** The message of the last failed call of this thread. */
  const char* (*error)(void);
};

/** The allocator of a device. Returns null and prints a message on stderr if PyTorch refuses. */
const struct MillraceTorch* millrace_torch(int device);

#ifdef __cplusplus
}
#endif
