#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/observer.hpp"
#include "millrace/memory/out_of_memory.hpp"
#include "millrace/memory/statistics.hpp"

namespace millrace {

/** @brief A label under which allocated bytes are counted; from `Allocator::tag`. 0: untagged. */
struct Tag {
  std::uint16_t index = 0;
};

/** @brief Identifies a scope of peaks; from `Allocator::open_scope`. */
struct ScopeId {
  std::uint64_t value = 0;
};

/**
 * @brief Allocates and frees memory in stream order. One test suite runs over every implementation.
 *
 * Any thread may call. Memory is aligned to at least 256 bytes. Every call ignores nullptr.
 *
 * Work that is enqueued on the owner after `allocate` may use the memory. Another stream or the
 * host may use it after it is ordered after the owner's work so far. Report a use on another stream
 * with `record_use`, or free the block with a marker that comes after that use.
 */
class Allocator {
 public:
  virtual ~Allocator() = default;

  /**
   * @brief Allocates memory that work enqueued on `stream` may use from now on.
   *
   * Before a request fails, the host waits for freed memory that any stream still uses.
   * @param bytes   size in bytes; 0 returns nullptr
   * @param stream  the owner: frees are ordered on it
   * @param tag     label under which the bytes are counted
   * @return the address
   * @throws out_of_memory if the device and every cached block together cannot serve the request;
   *         caches may have shrunk, nothing else has changed
   * @throws DeviceError if a driver call failed for another reason; nothing else has changed then,
   *         either
   * @throws std::invalid_argument if `stream` refers to a stream that was destroyed or detached
   */
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef stream, Tag tag = {}) {
    return allocate(bytes, stream, stream, tag);
  }

  /**
   * @brief Allocates memory that belongs to `owner` and that `first_user` uses first: for instance
   *        a batch that a copy stream fills for the main stream.
   *
   * Work enqueued on `first_user` may use the memory from now on; that use counts as recorded.
   * `owner` may use it after the caller has made `owner` wait for `first_user`. After the free, the
   * block is cached where `first_user` searches first.
   * @param bytes       size in bytes; 0 returns nullptr
   * @param owner       frees are ordered on it
   * @param first_user  the stream that uses the memory first
   * @param tag         label under which the bytes are counted
   * @throws out_of_memory, DeviceError and std::invalid_argument like the other overload
   */
  [[nodiscard]] virtual void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                       Tag tag = {}) = 0;

  /**
   * @brief Frees the block in the order of its owner: the next user comes after all work enqueued
   *        on the owner so far, and after all recorded uses.
   *
   * Does not throw if the device refuses a marker: the block is then kept until a later marker
   * covers its uses.
   * @throws std::invalid_argument if `address` is not a live allocation
   */
  virtual void deallocate(void* address) = 0;

  /**
   * @brief Frees the block in the order of `stream` instead of its owner.
   * @throws DeviceError if `stream` is a raw handle and the driver cannot identify it; the block
   *         then stays live
   */
  virtual void deallocate(void* address, StreamRef stream) = 0;

  /**
   * @brief Frees the block; the caller states that every use precedes `marker`.
   *
   * The cheapest and most precise free: no stream is marked, and later work delays nothing.
   * @param marker  from `OrderedDevice::mark` or `Event::point`, after the last use
   * @throws std::invalid_argument if `marker` was never recorded, or is older than the allocation
   */
  virtual void deallocate(void* address, Point marker) = 0;

  /**
   * @brief Allocates one block for each of `sizes`, all owned by `stream`. All or none: if one
   *        request fails, the blocks of the others are freed.
   *
   * Otherwise the same as calls of `allocate` in this order. A CachingAllocator polls and takes its
   * lock once. In a batch that fails, the blocks that are freed count in the statistics as
   * allocations and as frees, and raise peaks, because they were allocated for a short time.
   * @param addresses  receives the blocks; as long as `sizes`; untouched if the call throws
   * @throws what `allocate` throws; std::invalid_argument if the spans differ in length
   */
  void allocate(std::span<const std::size_t> sizes, std::span<void*> addresses, StreamRef stream,
                Tag tag = {});

  /**
   * @brief Frees each block in the order of its owner. nullptr is ignored.
   *
   * A CachingAllocator takes its lock once, and records one marker for each stream with recorded
   * uses instead of one for each block.
   * @throws std::invalid_argument if an address is not a live allocation or occurs twice; no block
   *         is then freed. While a CachingAllocator has graph pools, it frees the blocks one by
   *         one: an error of another kind then leaves that block and those after it live
   */
  void deallocate(std::span<void* const> addresses);

  /** @brief Frees each block in the order of `stream` instead of its owner. Otherwise the same. */
  void deallocate(std::span<void* const> addresses, StreamRef stream);

  /**
   * @brief Returns whether `address` is a live allocation. An allocator that cannot know it returns
   *        true.
   */
  [[nodiscard]] virtual bool is_live(const void* address) const { return address != nullptr; }

  /**
   * @brief Records that `stream` uses the block: its free also comes after all work that is
   *        enqueued on `stream` until the free.
   *
   * A stream that is not attached must not be destroyed, and must not be captured, until the free:
   * the driver could give its handle to another stream. Repeated calls with one stream count once.
   * A use by the owner is not recorded, since a plain free comes after its work anyway. So a free
   * on another stream, or with a marker, must be ordered after the owner's work by the caller.
   * @param address  the block; nullptr is ignored
   * @param stream   the stream that uses the block, or will use it before the free
   * @throws std::invalid_argument if `address` is not a live allocation
   */
  virtual void record_use(void* address, StreamRef stream) = 0;

  /**
   * @brief Makes `new_owner` the stream on which the free is ordered.
   *
   * The former owner's work until the free counts as a recorded use. Inserts no wait: the caller
   * orders `new_owner` after the work that it depends on.
   * @param address    the block; nullptr is ignored
   * @param new_owner  the stream on which a plain `deallocate` is ordered from now on
   * @throws std::invalid_argument if `address` is not a live allocation, or `new_owner` refers to a
   *         stream that was destroyed or detached
   */
  virtual void transfer(void* address, StreamRef new_owner) = 0;

  /**
   * @brief Returns free memory to the driver.
   * @param keep_bytes  at least this many bytes stay reserved
   * @return the bytes that were returned to the driver
   */
  virtual std::size_t trim(std::size_t keep_bytes = 0) = 0;

  /** @brief Returns the tag with this name; creates it on first use. */
  [[nodiscard]] virtual Tag tag(std::string_view name) = 0;

  /** @brief Returns counts and bytes, exact at the time of the call. */
  [[nodiscard]] virtual MemoryStatistics statistics() = 0;
  /**
   * @brief Returns the free bytes that `stream` could use now, and those that it could use only
   *        later.
   */
  [[nodiscard]] virtual UsableBytes usable(StreamRef stream) = 0;

  /** @brief Opens a scope whose peaks start at the current values. Close it with `close_scope`. */
  [[nodiscard]] virtual ScopeId open_scope() = 0;
  /** @brief Returns the current values, and the highest values since the scope was opened. */
  [[nodiscard]] virtual MemoryGauges peaks(ScopeId scope) = 0;
  /** @brief Ends the scope. */
  virtual void close_scope(ScopeId scope) = 0;

  /**
   * @brief Reports every allocation and free to `observer` from now on; nullptr: to none.
   *
   * The observer is not owned. Set it while no other thread uses the allocator.
   */
  virtual void observe(AllocationObserver* observer) = 0;

  /** @brief Returns the device that this allocator serves. */
  [[nodiscard]] virtual OrderedDevice& device() const noexcept = 0;

 protected:
  /**
   * @brief Serves a batch; the spans have one length. The default calls `allocate` for each
   *        request.
   */
  virtual void allocate_batch(std::span<const std::size_t> sizes, std::span<void*> addresses,
                              StreamRef stream, Tag tag);
  /**
   * @brief Frees a batch. The default calls `deallocate` for each block.
   * @param addresses  the blocks; nullptr is ignored
   * @param stream     the stream on which the frees are ordered; nullptr: each block's owner
   */
  virtual void deallocate_batch(std::span<void* const> addresses, const StreamRef* stream);
};

}  // namespace millrace
