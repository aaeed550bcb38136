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

/** @brief A label that bytes are counted under; from `Allocator::tag`. 0: untagged. */
struct Tag {
  std::uint16_t index = 0;
};

/** @brief Names a scope of peaks; from `Allocator::open_scope`. */
struct ScopeId {
  std::uint64_t value = 0;
};

/**
 * @brief Stream-ordered memory. One suite of tests runs over every implementation.
 *
 * Any thread may call. Memory is aligned to 256 bytes at least. Every call ignores nullptr. Memory
 * given out for a stream may be used by work enqueued there from now on; by other streams, and by
 * the host, once they are ordered after that, and until the free once `record_use` said so.
 */
class Allocator {
 public:
  virtual ~Allocator() = default;

  /**
   * @brief Memory that work enqueued on `stream` may use from now on.
   *
   * Before it fails the host waits for memory that is free but still in use, on whatever stream.
   * @param bytes  0 returns nullptr
   * @throws out_of_memory if the device and every cached block together can not serve it, or
   *         DeviceError if a driver call failed otherwise; caches may have shrunk, nothing else
   * @throws std::invalid_argument if `stream` refers to a stream that was destroyed or detached
   */
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef stream, Tag tag = {}) {
    return allocate(bytes, stream, stream, tag);
  }

  /**
   * @brief Memory of `owner` that `first_user` uses first.
   *
   * Work on `first_user` may use it from now on, and its use counts as recorded. `owner` may use
   * it once it is ordered after what `first_user` did (a wait of the caller's). When it is freed it
   * goes back to where `first_user` takes its blocks from.
   */
  [[nodiscard]] virtual void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                       Tag tag = {}) = 0;

  /**
   * @brief Frees, ordered on the owner: the next user comes after all that was enqueued there.
   *
   * nullptr is ignored. Never throws for the device's sake: what can not be recorded now keeps
   * the block back instead.
   * @throws std::invalid_argument for an address that is not a live allocation
   */
  virtual void deallocate(void* address) = 0;

  /**
   * @brief Frees, ordered on `stream` instead of the owner.
   * @throws DeviceError if `stream` is a raw handle and the device can not say which stream that
   * is; the memory is live still
   */
  virtual void deallocate(void* address, StreamRef stream) = 0;

  /** @brief Frees; every use precedes `marker`. @throws std::invalid_argument if it is older yet */
  virtual void deallocate(void* address, Point marker) = 0;

  /**
   * @brief Memory for each of `sizes`, all of `stream`; or none, if one can not be had.
   *
   * As many calls of `allocate`, in this order, except that a failure gives back what was got. A
   * CachingAllocator polls and takes its lock once.
   * @param addresses  as many as `sizes`; untouched if the call throws
   * @throws what `allocate` throws; std::invalid_argument if the spans differ in length
   */
  void allocate(std::span<const std::size_t> sizes, std::span<void*> addresses, StreamRef stream,
                Tag tag = {});

  /**
   * @brief Frees each, ordered on its owner. nullptr is ignored.
   *
   * A CachingAllocator takes its lock once, and records one marker for each stream of the recorded
   * uses, not one for each block.
   * @throws std::invalid_argument if an address is not a live allocation or is named twice; then
   *         none is freed. While a CachingAllocator has graph pools, blocks are freed one by one:
   *         another error then leaves those live that come after it.
   */
  void deallocate(std::span<void* const> addresses);

  /** @brief The same, ordered on `stream` instead of the owners. */
  void deallocate(std::span<void* const> addresses, StreamRef stream);

  /** @brief Whether `address` is a live allocation. An allocator that does not know says yes. */
  [[nodiscard]] virtual bool is_live(const void* address) const { return address != nullptr; }

  /**
   * @brief `stream` uses the memory too: the free will also wait for what is enqueued there.
   *
   * A stream that is not attached has to live, uncaptured, until then; as a destroyed handle may be
   * another stream's by now.
   */
  virtual void record_use(void* address, StreamRef stream) = 0;

  /**
   * @brief Makes `new_owner` the stream that frees are ordered on.
   *
   * The old owner's work so far counts as a recorded use (see there). Orders nothing by itself.
   */
  virtual void transfer(void* address, StreamRef new_owner) = 0;

  /** @brief Gives free segments back to the driver until `keep_bytes` are reserved. @return bytes
   */
  virtual std::size_t trim(std::size_t keep_bytes = 0) = 0;

  /** @brief The tag of this name, made on first use. */
  [[nodiscard]] virtual Tag tag(std::string_view name) = 0;

  [[nodiscard]] virtual MemoryStatistics statistics() = 0;
  [[nodiscard]] virtual UsableBytes usable(StreamRef stream) = 0;

  /** @brief A scope whose peaks begin at the present values; ended by `close_scope`. */
  [[nodiscard]] virtual ScopeId open_scope() = 0;
  [[nodiscard]] virtual MemoryGauges peaks(ScopeId scope) = 0;
  virtual void close_scope(ScopeId scope) = 0;

  /** @brief Not owned; set while nothing else uses the allocator. nullptr: none. */
  virtual void observe(AllocationObserver* observer) = 0;

  [[nodiscard]] virtual OrderedDevice& device() const noexcept = 0;

 protected:
  /** @brief Serves a batch, spans of one length; here: one call for each. */
  virtual void allocate_batch(std::span<const std::size_t> sizes, std::span<void*> addresses,
                              StreamRef stream, Tag tag);
  /** @brief Frees a batch; here: one call for each. @param stream  nullptr: each one's owner */
  virtual void deallocate_batch(std::span<void* const> addresses, const StreamRef* stream);
};

}  // namespace millrace
