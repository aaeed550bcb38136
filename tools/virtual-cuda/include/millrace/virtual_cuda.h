#pragma once

/**
 * @file
 * For programs that know that they may run on Millrace's virtual CUDA runtime: host implementations
 * of kernels, and what the runtime knows. Get the table with
 *
 *   const void* table = nullptr;
 *   const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
 *   if (cudaGetExportTable(&table, &id) == cudaSuccess) ...  // a virtual runtime
 *
 * or in a shared library that the variable MILLRACE_VIRTUAL_KERNELS names: the runtime loads it at
 * its start, and calls its function `void millrace_virtual_kernels(const MillraceVirtualCuda*)`.
 */

#include <stddef.h>

#define MILLRACE_VIRTUAL_CUDA_ID                                                       \
  {                                                                                    \
    { 'm', 'i', 'l', 'l', 'r', 'a', 'c', 'e', ' ', 'v', 'c', 'u', 'd', 'a', ' ', '1' } \
  }

#ifdef __cplusplus
extern "C" {
#endif

/** A launch, as the host implementation of its kernel sees it. */
struct MillraceLaunch {
  const char* kernel; /**< name as the compiler registered it */
  unsigned grid[3];
  unsigned block[3];
  size_t shared_bytes;
  void** arguments; /**< copies, made at the launch; device pointers still need `data` */
};

/** The host implementation of a kernel. It runs when the launch takes effect. */
struct MillraceKernel {
  const char* pattern;          /**< of the registered (mangled) name, with * and ? */
  const size_t* argument_bytes; /**< the size of each argument */
  size_t argument_count;
  /** Must not call CUDA and must not throw. */
  void (*run)(const struct MillraceLaunch* launch);
};

struct MillraceVirtualCuda {
  size_t bytes; /**< of this struct: a later version may append members */
  /** Kernels registered before and after are both found. The struct is copied. */
  void (*add_kernel)(const struct MillraceKernel* kernel);
  /** Where the host reaches the device memory at `address`; other addresses as they are. */
  void* (*data)(const void* address);
  /** Operations that were enqueued and have not taken effect. */
  size_t (*pending)(void);
  /** The schedule's clock, in nanoseconds: virtual time with a device profile. */
  long long (*now)(void);
};

#ifdef __cplusplus
}
#endif
