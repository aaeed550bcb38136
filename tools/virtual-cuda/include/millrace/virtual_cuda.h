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
    { 'm', 'i', 'l', 'l', 'r', 'a', 'c', 'e', ' ', 'v', 'c', 'u', 'd', 'a', ' ', '2' } \
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

/** What a launch costs on the GPU. Its time is the sum of `nanoseconds` and the larger one of the
 *  times that flops and bytes take at the profile's rates. */
struct MillraceCost {
  double flops; /**< FP32 */
  double bytes; /**< of device memory, read and written */
  long long nanoseconds;
  int whole_machine; /**< takes turns with other such kernels; so do those with flops or bytes */
};

/** The host implementation of a kernel. It runs when the launch takes effect. */
struct MillraceKernel {
  /** Of the registered name, as it is mangled or as c++filt prints it, with * and ?; other
   *  characters that fnmatch knows need a backslash. */
  const char* pattern;
  /** The size of each argument. Arguments after the last one that matters may be left out, and 0
   *  is the size of one that does not matter. */
  const size_t* argument_bytes;
  size_t argument_count;
  /** Must not call CUDA and must not throw. Null: the launch takes its turn and its cost, and
   *  computes nothing. */
  void (*run)(const struct MillraceLaunch* launch);
  /** Called at the launch, with `cost` all zeros. Null: the launch takes the time of the file
   *  MILLRACE_VIRTUAL_COSTS, or the least that any does. */
  void (*cost)(const struct MillraceLaunch* launch, struct MillraceCost* cost);
};

/** A kernel that the program registered. */
struct MillraceRegistered {
  const char* name;     /**< as the compiler registered it */
  const char* readable; /**< as c++filt prints it */
  int computes;         /**< whether it has a host implementation */
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
  /** Calls `visit` for each kernel that is registered now; `visit` must not call CUDA. */
  void (*each_kernel)(void (*visit)(const struct MillraceRegistered* kernel, void* data),
                      void* data);
  /** For `run`: whether a kernel may touch the byte at `address`. It may if memory of a GPU is
   * there, or host memory that was pinned, registered or is managed. */
  int (*reachable)(const void* address);
  /** For `run`: the kernel failed, with a cudaError_t such as cudaErrorIllegalAddress. Calls of
   * CUDA that wait for it and all later ones return that error. */
  void (*lose)(int error);
};

#ifdef __cplusplus
}
#endif
