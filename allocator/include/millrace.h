/**
 * @file millrace.h
 * @brief The allocator for C programs (C99), and for other languages by their C interface.
 *
 * @code
 * void* batch = millrace_malloc(bytes, 0, stream);
 * ... work on stream ...
 * millrace_free(batch, bytes, 0, stream);
 * @endcode
 *
 * Each GPU has one memory (millrace::default_memory), which is made by the first call that names
 * the GPU. Any thread may call at any time: before main, in host callbacks (which must not
 * allocate), and in destructors while the process ends. No call throws, and no call ends the
 * process. A call that fails has changed nothing, returns a status other than MILLRACE_OK (or
 * NULL), and leaves a message for the calling thread: millrace_last_error().
 *
 * In a child process after a fork, CUDA does not work: frees do nothing there and succeed, and the
 * other calls return MILLRACE_DEVICE_LOST.
 *
 * `struct CUstream_st*` is `cudaStream_t`, and `struct CUevent_st*` is `cudaEvent_t`: no CUDA
 * header is needed. What a call may do with a stream that is not attached: docs/device-memory.md.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#if defined(__GNUC__)
#define MILLRACE_EXPORT __attribute__((visibility("default")))
#else
#define MILLRACE_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
struct CUevent_st;

/** @brief The result of a call. */
typedef enum millrace_status {
  MILLRACE_OK = 0,
  MILLRACE_OUT_OF_MEMORY = 1,    /**< the GPU and every cached block cannot serve the request */
  MILLRACE_INVALID_ARGUMENT = 2, /**< such as an address that is not a live allocation */
  MILLRACE_NOT_SUPPORTED = 3,    /**< such as a build without CUDA */
  MILLRACE_CAPTURE = 4,          /**< not allowed while the stream is captured into a graph */
  MILLRACE_DEVICE_LOST = 5,      /**< every later call on this GPU fails as well */
  MILLRACE_FILE = 6,             /**< a file cannot be written */
  MILLRACE_UNKNOWN = 7           /**< any other failure; see the message */
} millrace_status;

/** @brief The version of the library, as "major.minor.patch". */
MILLRACE_EXPORT const char* millrace_version(void);

/**
 * @brief Why the calling thread's last failed call failed, in one or several lines.
 * @return valid until the thread's next failed call; "" if none has failed
 */
MILLRACE_EXPORT const char* millrace_last_error(void);

/** @brief The status of the calling thread's last failed call; MILLRACE_OK if none has failed. */
MILLRACE_EXPORT millrace_status millrace_last_status(void);

/* Memory. */

/**
 * @brief Allocates memory that work enqueued on `stream` may use from now on. Aligned to 256 bytes.
 * @param size    bytes; 0 gives NULL, which is no error
 * @param device  ordinal of the GPU
 * @param stream  the owner; frees are ordered on it
 * @return NULL if the call failed
 */
MILLRACE_EXPORT void* millrace_malloc(ssize_t size, int device, struct CUstream_st* stream);

/**
 * @brief Frees memory in the order of `stream`: the next user comes after all work that is enqueued
 *        there, and after all recorded uses.
 *
 * If Millrace did not allocate the address, or it was freed already, nothing happens, and
 * millrace_last_status() is MILLRACE_INVALID_ARGUMENT.
 * @param address  NULL is ignored
 * @param size     not used; pluggable allocators pass it
 * @param device   ordinal of the memory's GPU
 * @param stream   must exist; usually the stream that the memory was allocated for
 */
MILLRACE_EXPORT void millrace_free(void* address, ssize_t size, int device,
                                   struct CUstream_st* stream);

/**
 * @brief Frees memory in the order of its owner. Makes no driver call, so the owner's stream may
 *        already be destroyed; use it in finalizers.
 */
MILLRACE_EXPORT millrace_status millrace_free_owned(void* address, int device);

/**
 * @brief Records that `stream` uses the memory: its free also comes after all work that is enqueued
 *        on `stream` until then. The stream must exist until the free.
 */
MILLRACE_EXPORT millrace_status millrace_record_stream(void* address, int device,
                                                       struct CUstream_st* stream);

/**
 * @brief Makes `stream` the owner. The former owner's work until the free counts as a recorded use.
 *        Inserts no wait.
 */
MILLRACE_EXPORT millrace_status millrace_transfer(void* address, int device,
                                                  struct CUstream_st* stream);

/*
 * Hooks of PyTorch's CUDAPluggableAllocator: docs/c-interface.md. The hooks for pools have C++
 * types and are in millrace/interop/torch_hooks.hpp. Hooks return no status; millrace_last_status()
 * has that of the thread's last failed call.
 */

/** @brief set_init_fn: makes the memory of `count` GPUs. */
MILLRACE_EXPORT void millrace_torch_init(int count);

/**
 * @brief Gives the hooks for pools a function that returns the calling thread's current stream of a
 *        GPU. Without it, a stream must allocate once before it is captured.
 * @param current  NULL: none
 */
MILLRACE_EXPORT void millrace_torch_set_current_stream(struct CUstream_st* (*current)(int device));

/**
 * @brief The allocation function: like millrace_malloc, from the pool to which PyTorch routes
 *        requests on the stream.
 */
MILLRACE_EXPORT void* millrace_torch_malloc(ssize_t size, int device, struct CUstream_st* stream);

/** @brief The free function, for memory of millrace_torch_malloc. */
MILLRACE_EXPORT void millrace_torch_free(void* address, ssize_t size, int device,
                                         struct CUstream_st* stream);

/** @brief set_base_alloc_fn: the segment that contains an allocation. @return NULL if none does */
MILLRACE_EXPORT void* millrace_torch_base_alloc(void* address, size_t* size);

/** @brief set_record_stream_fn. Without it, Tensor.record_stream would do nothing, silently. */
MILLRACE_EXPORT void millrace_torch_record_stream(void* address, struct CUstream_st* stream);

/** @brief set_reset_fn: torch.cuda.empty_cache(). Releases all free memory of all GPUs. */
MILLRACE_EXPORT void millrace_torch_reset(void);

/** @brief set_memory_fraction_fn: limits the GPU's reserved bytes to this part of its memory. */
MILLRACE_EXPORT void millrace_torch_memory_fraction(double fraction, int device);

/* Order: optional. If an order is reported, reuse does not have to wait for completion. */

/** @brief Flags for millrace_attach. */
enum { MILLRACE_ATTACH_DEFAULT = 0, MILLRACE_ATTACH_INDEPENDENT = 1 };

/**
 * @brief Adds a stream that lives long. Its calls then cost no look-up. Detach it before it is
 *        destroyed.
 * @param name   for reports; may be NULL
 * @param flags  MILLRACE_ATTACH_INDEPENDENT: Millrace never inserts a wait on it or for it, because
 *               it runs collectives or kernels that spin
 */
MILLRACE_EXPORT millrace_status millrace_attach(int device, struct CUstream_st* stream,
                                                const char* name, unsigned flags);

/** @brief Removes an attached stream, before it is destroyed. */
MILLRACE_EXPORT millrace_status millrace_detach(int device, struct CUstream_st* stream);

/** @brief Ends a phase: other streams can then wait for earlier work without any later work. */
MILLRACE_EXPORT millrace_status millrace_mark(int device, struct CUstream_st* stream);

/**
 * @brief Calls cudaEventRecord, and notes the order. From then on the event must always be recorded
 *        through this function, until it is forgotten.
 */
MILLRACE_EXPORT millrace_status millrace_record_event(int device, struct CUevent_st* event,
                                                      struct CUstream_st* stream);

/** @brief Calls cudaStreamWaitEvent, and notes the order. */
MILLRACE_EXPORT millrace_status millrace_wait_event(int device, struct CUstream_st* stream,
                                                    struct CUevent_st* event);

/** @brief Forgets an event. Call it before an event that was recorded here is destroyed. */
MILLRACE_EXPORT millrace_status millrace_forget_event(int device, struct CUevent_st* event);

/** @brief Calls cudaStreamSynchronize, and notes what is complete. */
MILLRACE_EXPORT millrace_status millrace_synchronize(int device, struct CUstream_st* stream);

/* Limits. */

/** @brief Sets the maximum number of reserved bytes; 0: all memory of the GPU. */
MILLRACE_EXPORT millrace_status millrace_set_limit(int device, size_t bytes);

/** @brief Sets the bytes of the GPU to leave free for others. */
MILLRACE_EXPORT millrace_status millrace_set_headroom(int device, size_t bytes);

/**
 * @brief Releases free memory, as long as at least `keep` bytes stay reserved.
 * @param released  receives the number of released bytes; may be NULL
 */
MILLRACE_EXPORT millrace_status millrace_trim(int device, size_t keep, size_t* released);

/* Statistics and snapshots. */

/** @brief Bytes and counts since the GPU's memory was made. docs/accounting.md defines them. */
typedef struct millrace_statistics {
  size_t struct_bytes; /**< set it to sizeof(millrace_statistics); later versions may append */

  size_t requested, requested_peak; /**< requested bytes of live allocations */
  size_t allocated, allocated_peak; /**< bytes of live blocks, after rounding */
  size_t active, active_peak;       /**< allocated, or freed and not yet usable by its stream */
  size_t reserved, reserved_peak;   /**< bytes of all segments held */
  size_t cached;                    /**< reserved - active */
  size_t segments, live_blocks, free_blocks;

  uint64_t allocations, frees;
  uint64_t served_own;     /**< from a free block of the same stream */
  uint64_t served_ordered; /**< from a block of another stream, without a driver call */
  uint64_t served_waited;  /**< after a wait was inserted */
  uint64_t served_grown;   /**< with new memory */
  uint64_t waits_inserted;
  uint64_t retries;       /**< times that the GPU or the limit refused memory */
  uint64_t out_of_memory; /**< requests that failed */
} millrace_statistics;

/** @param statistics  receives as many fields as fit in `statistics->struct_bytes` */
MILLRACE_EXPORT millrace_status millrace_get_statistics(int device,
                                                        millrace_statistics* statistics);

/**
 * @brief The statistics as JSON, with those of each stream and tag.
 * @param text   receives the text with a 0 at its end, as far as it fits; NULL if `bytes` is 0
 * @param bytes  size of `text`
 * @param size   receives the bytes that the whole text takes with its 0; may be NULL
 * @return MILLRACE_INVALID_ARGUMENT if `text` is too small, or NULL and `bytes` is not 0
 */
MILLRACE_EXPORT millrace_status millrace_statistics_json(int device, char* text, size_t bytes,
                                                         size_t* size);

/**
 * @brief Records the allocations, frees and segments from now on, for snapshots, and forgets
 *        earlier records. Recording makes allocations slower.
 *
 * Other threads may allocate meanwhile.
 * @param allocations   minimum number of newest allocations to keep; up to a quarter more may be
 *                      kept. Live allocations, and those that another stream may still use, are
 *                      always kept. 0: nothing is recorded
 * @param stack_frames  innermost frames of the stack of each allocation; more than 64 count as 64.
 *                      0: no stacks. Allocations that are already live have none
 * @return MILLRACE_DEVICE_LOST in a forked child
 */
MILLRACE_EXPORT millrace_status millrace_record_history(int device, size_t allocations,
                                                        unsigned stack_frames);

/** @brief Begins a named part of the program in the history, which lasts until the next call. Does
 *         nothing if no history is recorded.
 *  @return MILLRACE_INVALID_ARGUMENT if `name` is NULL */
MILLRACE_EXPORT millrace_status millrace_annotate(int device, const char* name);

/**
 * @brief Writes every segment and block, and the statistics, as JSON to a file. docs/c-interface.md
 *        describes it. Does not wait for the GPU.
 *
 * If the name ends with ".pickle", the file is a memory snapshot for PyTorch's viewer. It has no
 * statistics. It has the history, if one is recorded.
 * An existing file is replaced when the new one is complete.
 */
MILLRACE_EXPORT millrace_status millrace_snapshot(int device, const char* path);

#ifdef __cplusplus
}
#endif

/* In a program compiled for per-thread default streams, a null stream is the thread's own. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
static inline struct CUstream_st* millrace_stream_here(struct CUstream_st* stream) {
  return stream == NULL ? (struct CUstream_st*)(uintptr_t)2 : stream;
}
#define millrace_malloc(size, device, stream) \
  (millrace_malloc)(size, device, millrace_stream_here(stream))
#define millrace_free(address, size, device, stream) \
  (millrace_free)(address, size, device, millrace_stream_here(stream))
#define millrace_record_stream(address, device, stream) \
  (millrace_record_stream)(address, device, millrace_stream_here(stream))
#define millrace_transfer(address, device, stream) \
  (millrace_transfer)(address, device, millrace_stream_here(stream))
#define millrace_mark(device, stream) (millrace_mark)(device, millrace_stream_here(stream))
#define millrace_record_event(device, event, stream) \
  (millrace_record_event)(device, event, millrace_stream_here(stream))
#define millrace_wait_event(device, stream, event) \
  (millrace_wait_event)(device, millrace_stream_here(stream), event)
#define millrace_synchronize(device, stream) \
  (millrace_synchronize)(device, millrace_stream_here(stream))
#endif

#endif /* MILLRACE_H */
