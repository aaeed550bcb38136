#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/context.hpp"
#include "engine/engine.hpp"
#include "engine/event.hpp"
#include "engine/gpu.hpp"
#include "engine/settings.hpp"
#include "engine/slab.hpp"
#include "engine/stream.hpp"
#include "engine/thread.hpp"
#include "graph/memory.hpp"
#include "memory/arrays.hpp"
#include "memory/memory.hpp"
#include "memory/pool.hpp"
#include "memory/ranges.hpp"
#include "memory/textures.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief The virtual machine of this process. Made at its first call of CUDA, and never destroyed:
 *        static destructors may still call CUDA.
 *
 * `engine.mutex()` guards everything. With the schedule `instant`, without the checker and while
 * nothing is pending, calls on streams and events take no lock (`quick`).
 */
struct Runtime {
  Runtime(const Settings& options, const DeviceProfile& facts);

  const Settings settings;
  const DeviceProfile profile;
  Engine engine;
  Memory memory;
  Ranges ranges;
  GraphMemory graph_memory;
  Arrays arrays;
  Textures textures;
  std::vector<std::unique_ptr<Gpu>> gpus;
  Slab<CUstream_st> streams;
  Slab<CUevent_st> events;
  Slab<CUmemPoolHandle_st> pools;
  /** The pools of a location of the host, made at the program's first request. */
  struct HostPlace {
    PoolPlace place;
    cudaMemPool_t usual = nullptr;
    cudaMemPool_t current = nullptr;
  };
  std::vector<HostPlace> host_places;
  std::vector<cudaMemPool_t> host_pools;  ///< pools of pinned and managed memory
  std::deque<CUctx_st> contexts;          ///< contexts of the program; never freed
  std::uint64_t context_ids = 0;
  std::uint64_t pool_ids = 0;
  SharedFiles pool_files;        ///< exported pools, by id
  std::uint64_t stream_ids = 2;  ///< CUDA's default streams have the ids 1 and 2
  std::uint64_t capture_ids = 0;
  std::uint64_t peak_streams = 0;

  /** @brief The calling thread's GPU. Its context becomes current. */
  [[nodiscard]] Gpu& current_gpu() {
    this_thread->bound = true;
    Gpu& gpu = *gpus[static_cast<std::size_t>(this_thread->device)];
    gpu.used.store(true, std::memory_order_relaxed);
    return gpu;
  }
};

extern Runtime* the_runtime;
extern bool instant;  ///< schedule `instant` and no checker; a plain variable, for speed
[[nodiscard]] inline Runtime& runtime() noexcept { return *the_runtime; }

/** @brief Makes the runtime. Called once. @throws std::exception with the reason of a failure */
void make_runtime();

/** @brief Whether a call may do its work at once, without the lock. */
[[nodiscard]] inline bool quick() noexcept { return instant && the_runtime->engine.idle(); }

/** @brief Adds the host time of a call to the schedule's clock. */
inline void spend(Lock&, Call call) { runtime().engine.schedule().spend(call); }

// Streams

/** @brief The stream that a null handle means. With the suffix _ptsz or _ptds it is per_thread. */
enum class Default { legacy, per_thread };

/** @return null if `handle` is not a stream */
[[nodiscard]] CUstream_st* find_stream(cudaStream_t handle, Default meaning) noexcept;
[[nodiscard]] CUstream_st* make_stream(Gpu& gpu, CUstream_st::Role role, unsigned flags,
                                       int priority);
void destroy_stream(CUstream_st& stream);
void release_per_thread_streams(Thread& thread);

/** @brief Enqueues on a stream that is not captured, with the legacy stream's synchronization. */
/// @param made  receives the operation before it may run; may be null
void enqueue(Lock& lock, CUstream_st& stream, Work work,
             const std::vector<OperationRef>& also_after = {}, OperationRef* made = nullptr);
/** @brief The operations that must be done before work that is enqueued on `stream` now. */
[[nodiscard]] std::vector<OperationRef> before(const CUstream_st& stream);
/** @brief The last operations of all streams of a GPU; some may be done or null. */
[[nodiscard]] std::vector<OperationRef> tails_of(const Gpu& gpu);
/** @brief Waits on the host for all work of a GPU. */
void synchronize(Lock& lock, Gpu& gpu);
/** @brief Frees unused pool memory above the release thresholds, as CUDA's synchronizations do. */
void trim_pools(Gpu& gpu);

/** @param place  an existing GPU, or the host */
[[nodiscard]] cudaMemPool_t make_pool(const PoolPlace& place, bool is_default,
                                      std::size_t max_bytes);
/** @brief The list that `pool` is in: the pools of its GPU or those of the host. */
[[nodiscard]] std::vector<cudaMemPool_t>& pools_beside(const CUmemPoolHandle_st& pool);

}  // namespace millrace::virtual_cuda
