#pragma once

/**
 * @file
 * The interface of Millrace's virtual CUDA runtime for programs that know about it: host
 * implementations of kernels, queries, and annotations for the race checker
 * (docs/virtual-cuda-checker.md). Get the table with
 *
 *   const void* table = nullptr;
 *   const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
 *   if (cudaGetExportTable(&table, &id) == cudaSuccess) ...  // a virtual runtime
 *
 * Alternatively, the variable MILLRACE_VIRTUAL_KERNELS names a shared library. The runtime loads it
 * at its start and calls its function `void millrace_virtual_kernels(const MillraceVirtualCuda*)`.
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

/** The cost of a launch on the GPU. Its time is the sum of `nanoseconds` and the larger one of the
 *  times that flops and bytes take at the profile's rates. */
struct MillraceCost {
  double flops; /**< FP32 */
  double bytes; /**< bytes of device memory, read and written */
  long long nanoseconds;
  int whole_machine; /**< takes turns with other such kernels, as do those with flops or bytes */
};

/** Receives the memory that a launch reads and writes from a kernel's `accesses`. */
struct MillraceAccesses {
  void* list;
  /** Adds bytes at an address of the program. `bytes` may be MILLRACE_TO_THE_END. A written range
   *  also counts as read. */
  void (*add)(void* list, const void* address, size_t bytes, int writes);
};
/** All bytes up to the end of the allocation that holds the address. */
#define MILLRACE_TO_THE_END ((size_t)-1)

/** The host implementation of a kernel. It runs when the launch takes effect. */
struct MillraceKernel {
  /** A pattern with * and ? for the registered name, either mangled or as c++filt prints it. Other
   *  special characters of fnmatch need a backslash. */
  const char* pattern;
  /** The size of each argument; 0 for an argument that the functions below do not read. Such
   *  arguments may be left out at the end. */
  const size_t* argument_bytes;
  size_t argument_count;
  /** Must not call CUDA and must not throw. Null: the launch takes its turn and its time, and
   *  computes nothing. */
  void (*run)(const struct MillraceLaunch* launch);
  /** Called at the launch, with `cost` all zeros. Null: the launch takes the time in the file
   *  MILLRACE_VIRTUAL_COSTS, or the minimum time of a kernel. */
  void (*cost)(const struct MillraceLaunch* launch, struct MillraceCost* cost);
  /** For the race checker, called at the launch: adds the memory that the launch will read and
   *  write. Null: the signature decides. A pointer to const is read and another pointer is written,
   *  each to the end of its allocation. */
  void (*accesses)(const struct MillraceLaunch* launch, const struct MillraceAccesses* accesses);
};

/** A race that was found, or an access out of bounds. */
struct MillraceRace {
  const char* kind;    /**< "read after write", "early reuse", "out of bounds", ... */
  const char* message; /**< both calls with their stacks, and an edge that would order them */
};

struct CUstream_st;
/** A stream for `allocated`: the calling thread uses the memory first. */
#define MILLRACE_NO_STREAM ((struct CUstream_st*)-1)

/** A kernel that the program registered. */
struct MillraceRegistered {
  const char* name;     /**< as the compiler registered it */
  const char* readable; /**< as c++filt prints it */
  int computes;         /**< whether it has a host implementation */
};

struct MillraceVirtualCuda {
  size_t bytes; /**< of this struct: a later version may append members */
  /** Adds a host implementation of kernels that are registered before or after the call. The struct
   * is copied. */
  void (*add_kernel)(const struct MillraceKernel* kernel);
  /** The host address of the device memory at `address`. Other addresses are returned unchanged. */
  void* (*data)(const void* address);
  /** Number of operations that were enqueued and have not taken effect. */
  size_t (*pending)(void);
  /** The schedule's clock, in nanoseconds: virtual time with a device profile. */
  long long (*now)(void);
  /** Calls `visit` for each kernel that is registered now; `visit` must not call CUDA. */
  void (*each_kernel)(void (*visit)(const struct MillraceRegistered* kernel, void* data),
                      void* data);
  /** For `run`: whether the kernel may touch the byte at `address`. It may touch memory of its GPU,
   * memory of another GPU that it has access to (peer access, cudaMemPoolSetAccess,
   * cuMemSetAccess), and pinned, registered or managed host memory. */
  int (*reachable)(const void* address);
  /** For `run`: reports that the kernel failed, with a cudaError_t such as cudaErrorIllegalAddress.
   * Calls of CUDA that wait for the kernel and all later calls return that error. */
  void (*lose)(int error);

  /* For the race checker. Without MILLRACE_VIRTUAL_CHECK all of these do nothing. */

  /** Reports that the calling thread or host function reads or writes memory that device work also
   * uses. That is pinned or managed memory, or device memory that a library accesses. */
  void (*host_access)(const void* address, size_t bytes, int writes);
  /** Reports that an allocator of the program hands out memory that it got from CUDA, for work on
   * `stream`: a cudaStream_t, null for the legacy stream, or MILLRACE_NO_STREAM. After the first
   * such call, the rest of CUDA's allocation counts as freed. */
  void (*allocated)(const void* address, size_t bytes, struct CUstream_st* stream);
  /** Reports that the memory was returned to that allocator. Work that was enqueued earlier may
   * still use it. The next user must be ordered after that work. */
  void (*freed)(const void* address);
  /** Orders the work of this thread up to now before the work of a thread after it `acquire`s the
   * same object: a mutex, a queue, a thread's handle. Only threads and host functions need this. */
  void (*release)(const void* object);
  void (*acquire)(const void* object);
  /** The number of races and accesses out of bounds found so far. Calls `visit` for the first 50,
   * once for each pair of places. `visit` may be null and must not call CUDA. */
  size_t (*races)(void (*visit)(const struct MillraceRace* race, void* data), void* data);

  /** For `run`: what cudaGraphSetConditional does in device code. `handle` is a
   * cudaGraphConditionalHandle. An unknown handle has no effect. */
  void (*set_conditional)(unsigned long long handle, unsigned value);
};

#ifdef __cplusplus
}
#endif
