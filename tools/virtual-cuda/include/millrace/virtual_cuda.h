#pragma once

/**
 * @file
 * For programs that know that they may run on Millrace's virtual CUDA runtime: host implementations
 * of kernels, what the runtime knows, and what its race checker is to know
 * (docs/virtual-cuda-checker.md). Get the table with
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
    { 'm', 'i', 'l', 'l', 'r', 'a', 'c', 'e', ' ', 'v', 'c', 'u', 'd', 'a', ' ', '3' } \
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

/** Where `accesses` of a kernel says what a launch reads and writes. */
struct MillraceAccesses {
  void* list;
  /** Bytes at an address of the program. `bytes` may be MILLRACE_TO_THE_END. A range that is
   *  written counts as read, too. */
  void (*add)(void* list, const void* address, size_t bytes, int writes);
};
/** To the end of the allocation that the address lies in. */
#define MILLRACE_TO_THE_END ((size_t)-1)

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
  /** For the race checker, called at the launch: what it will read and write. Null: by the
   *  signature, a pointer to const is read and another pointer is written, each to the end of its
   *  allocation. */
  void (*accesses)(const struct MillraceLaunch* launch, const struct MillraceAccesses* accesses);
};

/** A race that was found, or an access out of bounds. */
struct MillraceRace {
  const char* kind;    /**< "read after write", "early reuse", "out of bounds", ... */
  const char* message; /**< both calls with their stacks, and an edge that would order them */
};

struct CUstream_st;
/** For memory that the calling thread uses first. */
#define MILLRACE_NO_STREAM ((struct CUstream_st*)-1)

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
  /** For `run`: whether the kernel may touch the byte at `address`. It may if memory of its GPU is
   * there, memory of another GPU that it has access to (peer access, cudaMemPoolSetAccess,
   * cuMemSetAccess), or host memory that was pinned, registered or is managed. */
  int (*reachable)(const void* address);
  /** For `run`: the kernel failed, with a cudaError_t such as cudaErrorIllegalAddress. Calls of
   * CUDA that wait for it and all later ones return that error. */
  void (*lose)(int error);

  /* For the race checker. Without MILLRACE_VIRTUAL_CHECK all of these do nothing. */

  /** Host code of this thread, or of the host function that calls this, reads or writes memory that
   * work on the device uses, too: pinned and managed memory, or a library that is given device
   * memory. */
  void (*host_access)(const void* address, size_t bytes, int writes);
  /** An allocator of the program hands out memory that it got from CUDA, for work on `stream` (as
   * cudaStream_t; null is the legacy stream) or MILLRACE_NO_STREAM. From the first such call on,
   * the rest of that memory of CUDA's counts as freed. */
  void (*allocated)(const void* address, size_t bytes, struct CUstream_st* stream);
  /** That memory is given back to that allocator. Work that was enqueued before may still use it;
   * the next user must come after it. */
  void (*freed)(const void* address);
  /** What this thread did so far is before what a thread does after it `acquire`s the same object:
   * a mutex, a queue, the handle of a thread. Only threads and host functions need this. */
  void (*release)(const void* object);
  void (*acquire)(const void* object);
  /** The number of races and accesses out of bounds found so far. Calls `visit`, which may be null
   * and must not call CUDA, for each of the first ones, of each pair of places once. */
  size_t (*races)(void (*visit)(const struct MillraceRace* race, void* data), void* data);

  /** For `run`: what cudaGraphSetConditional does in device code. `handle` is a
   * cudaGraphConditionalHandle; one that is not known changes nothing. */
  void (*set_conditional)(unsigned long long handle, unsigned value);
};

#ifdef __cplusplus
}
#endif
