#pragma once

#include <stddef.h>

/**
 * The C interface between programs of this project and PyTorch's own caching allocator.
 *
 * shim.cpp implements it; peer.py compiles that against the PyTorch of the machine. Programs load
 * the result at run time, so that nothing here links PyTorch.
 */
#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of one device, as PyTorch's `memory_stats` counts them: current and peak. */
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
  /** Memory for `stream` (a cudaStream_t). Returns null, and sets `error`, if PyTorch throws. */
  void* (*allocate)(size_t bytes, void* stream);
  /** As `Tensor.record_stream`. The memory came from `allocate`. */
  void (*record_stream)(void* memory, void* stream);
  /** As dropping the last reference to a tensor. The memory came from `allocate`. */
  void (*free)(void* memory);
  /** The calls that a tensor's storage makes, without the book-keeping of `allocate`. */
  void* (*raw_allocate)(size_t bytes, void* stream);
  void (*raw_free)(void* memory);
  void (*statistics)(struct MillraceTorchStatistics* result);
  void (*reset_peaks)(void);
  /** Gives free segments back to the driver. */
  void (*empty_cache)(void);
  /** What the last failed call of this thread said. */
  const char* (*error)(void);
};

/** The allocator of a device. Returns null, with a message on stderr, if PyTorch refuses. */
const struct MillraceTorch* millrace_torch(int device);

#ifdef __cplusplus
}
#endif
