#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "millrace/interop/device_memory.hpp"
#include "millrace/interop/torch_records.hpp"
#include "millrace/interop/torch_settings.hpp"

namespace millrace {

/**
 * @brief The memory of one GPU for PyTorch: pools, statistics, history, snapshots.
 *
 * Made for an allocator that derives from PyTorch's CUDAAllocator (docs/python.md), and for the
 * hooks of its pluggable allocator. It uses no types of PyTorch. Memory outside of pools belongs to
 * a DeviceMemory. A pool has its own segments, on the same streams.
 *
 * A request belongs to the pool of the newest route whose filter accepts its stream. Without such a
 * route it is outside of pools. If that stream is being captured, the memory belongs to the pool's
 * graphs (GraphPool; docs/graph-capture.md).
 *
 * Thread-safe. In a child process after a fork, frees do nothing and other calls throw DeviceError
 * (`device_lost`).
 */
class TorchMemory {
 public:
  /** @brief A stream, with PyTorch's knowledge of it. */
  struct Stream {
    CUstream_st* handle = nullptr;
    bool stays = false;  ///< it is never destroyed: Millrace may name it in a later free
  };
  using Filter = std::function<bool(CUstream_st*)>;  ///< whether a route serves this stream
  using Tracker = std::function<void(const TorchTraceEntry&)>;  ///< gets new entries

  /**
   * @brief Makes the memory of one GPU.
   * @param device     outlives this object
   * @param device_id  PyTorch's number of the GPU, for messages and records
   * @param settings   policy, limit and the keys of PYTORCH_CUDA_ALLOC_CONF
   * @throws DeviceError if the size of the device's memory cannot be queried
   */
  TorchMemory(Device& device, int device_id, const TorchSettings& settings);
  /** @brief Waits for the device and releases all memory. Live allocations become invalid. */
  ~TorchMemory();
  TorchMemory(const TorchMemory&) = delete;
  TorchMemory& operator=(const TorchMemory&) = delete;

  /**
   * @brief The process's object for a GPU, made at the first call with the settings of the
   *        environment and never destroyed.
   *
   * Its memory becomes default_memory(device_id), unless that already exists. In a
   * DefaultMemoryScope of a TorchMemory's memory, it returns that object.
   * @throws DeviceError as the constructor of DeviceMemory; std::invalid_argument as
   *         TorchSettings::from_environment
   */
  [[nodiscard]] static TorchMemory& of(int device_id);
  /** @brief The object with the live allocation `address`, or nullptr. Makes no object. */
  [[nodiscard]] static TorchMemory* holding(const void* address);
  /** @brief The objects that exist by now. */
  [[nodiscard]] static std::vector<TorchMemory*> all();

  [[nodiscard]] int device_id() const noexcept;
  [[nodiscard]] DeviceMemory& memory() const noexcept;  ///< the memory outside of all pools
  [[nodiscard]] const TorchSettings& settings() const noexcept;

  /**
   * @brief Allocates memory that work enqueued on `stream` may use from now on.
   * @param bytes    size in bytes; 0 returns nullptr
   * @param stream   the owner: the free is ordered on it
   * @param context  kept with the block and its entries in the history
   * @throws as DeviceMemory::allocate
   */
  [[nodiscard]] void* allocate(std::size_t bytes, Stream stream, std::shared_ptr<void> context);
  /**
   * @brief Frees in the order of the owner, and after all recorded uses.
   * @param address  the block; nullptr is ignored
   * @param context  kept with the entry of the free in the history
   * @throws std::invalid_argument if `address` is not a live allocation
   */
  void deallocate(void* address, std::shared_ptr<void> context);
  /**
   * @brief Records a use on another stream, as DeviceMemory::record_use does.
   * @throws std::invalid_argument if `address` is not a live allocation
   */
  void record_use(void* address, CUstream_st* stream);
  /** @brief The `context` of the live allocation at `address`; nullptr if it has none. */
  [[nodiscard]] std::shared_ptr<void> context(const void* address) const;
  /** @brief Adds a note on a live allocation to the history. @return false if it is not live */
  bool annotate(const void* address, std::shared_ptr<void> context);
  /** @brief The segment that contains `address`; {nullptr, 0} if no segment does. */
  [[nodiscard]] std::pair<void*, std::size_t> segment_of(const void* address) const;

  /**
   * @brief Lets another GPU use all memory of this one.
   * @throws DeviceError `not_supported` if that GPU cannot
   */
  void allow_peer(int device_id);

  /**
   * @brief Limits the bytes of all pools together to a part of the GPU's memory.
   * @param fraction  above 0; 1: no limit
   * @throws std::invalid_argument if it is not above 0 and at most 1
   */
  void set_fraction(double fraction);
  [[nodiscard]] double fraction() const;
  /**
   * @brief Releases free memory to the driver.
   * @param pool  {0, 0}: the memory of all pools, and the memory outside of pools
   * @return the number of released bytes
   */
  std::size_t trim(TorchPoolId pool = {});

  /** @name Pools
   * A pool exists while it is used. After that, `trim` releases its memory, or a request that would
   * otherwise fail.
   * @throws std::invalid_argument if the pool does not exist
   * @{ */
  /**
   * @brief Counts one more use of the pool. The first use makes it.
   * @param source  source of its segments; nullptr: the device. Ignored once the pool has served a
   *                request
   */
  void use_pool(TorchPoolId pool, std::shared_ptr<SegmentSource> source = nullptr);
  void release_pool(TorchPoolId pool);                  ///< ends one use of the pool
  [[nodiscard]] int pool_uses(TorchPoolId pool) const;  ///< uses that have not ended
  /** @brief Never splits a block of the pool. Call it before the pool's first allocation. */
  void set_no_split(TorchPoolId pool);
  /** @brief Whether the pool's live allocations are exactly these. */
  [[nodiscard]] bool pool_holds_only(TorchPoolId pool,
                                     const std::unordered_set<void*>& addresses) const;
  /**
   * @brief Uses the pool, and routes to it each request whose stream the filter accepts.
   * @param origin  the stream that may be captured next; Millrace must know it before
   */
  void begin_route(TorchPoolId pool, CUstream_st* origin, Filter filter);
  /** @brief Ends the newest route to the pool. Call it after the driver's capture has ended. */
  void end_route(TorchPoolId pool);
  /** @} */

  [[nodiscard]] TorchStatistics statistics();
  void reset_peaks();  ///< sets each peak to its current value
  void reset_sums();   ///< sets the sums of allocations and frees, and the retries, to 0

  /**
   * @brief Sets which entries are recorded from now on.
   * @param clears  true: forgets all entries so far
   */
  void set_history(const TorchHistory& history, bool clears);
  /** @brief `tracker` is called for each entry from now on, under a lock. It must not call back. */
  void track(Tracker tracker);
  [[nodiscard]] std::vector<TorchTraceEntry> trace() const;  ///< recorded entries, oldest first
  /** @brief The segments and their blocks.
   *  @param pool  {0, 0}: the segments of all pools */
  [[nodiscard]] std::vector<TorchSegment> segments(TorchPoolId pool = {}) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
