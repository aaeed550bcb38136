#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "millrace/memory/allocator.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/** @brief How much a CachingAllocator may take. Bytes. */
struct MemoryLimits {
  std::size_t limit = 0;     ///< most bytes to reserve, whoever grows; 0: what the device has
  std::size_t headroom = 0;  ///< device bytes to leave free for others when growing
};

/**
 * @brief The stream-ordered caching allocator: keeps freed blocks, and gives each to whichever
 *        stream the one rule allows, waiting for it where the policy says that this is cheaper.
 *
 *   DeviceSource source{device.device()};
 *   CachingAllocator allocator{device, source, Policy::millrace()};
 */
class CachingAllocator final : public Allocator {
 public:
  /** @brief A free-memory callback: told what is missing, says whether it freed anything. */
  using MemoryCallback = std::function<bool(std::size_t bytes)>;

  CachingAllocator(OrderedDevice& device, SegmentSource& source, Policy policy,
                   MemoryLimits limits = {});
  /**
   * @brief Waits for the device, then gives every segment back. Live blocks become invalid.
   *
   * While a stream of the device is captured, the device cannot be synchronized. The host then
   * waits for what used each segment. A segment that the captured stream, or a stream that is not
   * attached, may still use stays reserved until the process ends: end captures first.
   */
  ~CachingAllocator() override;

  using Allocator::allocate;
  using Allocator::deallocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  void transfer(void* address, StreamRef new_owner) override;
  bool is_live(const void* address) const override;
  std::size_t trim(std::size_t keep_bytes = 0) override;
  Tag tag(std::string_view name) override;
  MemoryStatistics statistics() override;
  UsableBytes usable(StreamRef stream) override;
  ScopeId open_scope() override;
  MemoryGauges peaks(ScopeId scope) override;
  void close_scope(ScopeId scope) override;
  void observe(AllocationObserver* observer) override;
  OrderedDevice& device() const noexcept override;

  [[nodiscard]] const Policy& policy() const noexcept;

  /**
   * @brief Most bytes to reserve from now on; 0: what the device has.
   *
   * Below what is reserved, growth is refused until that has shrunk; `trim(bytes)` gives back what
   * is free.
   */
  void set_limit(std::size_t bytes);

  /** @brief Device bytes to leave free for others when growing. Growth under way counts. */
  void set_headroom(std::size_t bytes);

  /**
   * @brief Gets memory from the device now, in one piece, for `stream` to take blocks from.
   *
   * Large requests of the stream then grow nothing until they come to `bytes`. Count each request
   * as what it occupies: its size rounded up to the granule, and up to `Policy::slack` of its block
   * more (25% in `millrace`), since the rest of a block that is too little to split off stays with
   * it. Requests up to `Policy::small_limit` have segments of their own, and are served by this
   * only if `bytes` is no more than that. Free complete memory right in front of the piece, in the
   * stream's growable range, counts toward `bytes`. Under Sharing other than own_stream, other
   * streams may take of the piece what the one rule allows. Reserved memory is given back after all
   * other free memory; in a growable range this holds for the whole range, until it is empty.
   * @return bytes of the piece, at least `bytes`
   * @throws out_of_memory if the limit, the headroom or the device forbid it, also after cached
   *         memory was given back; caches may have shrunk, nothing else
   * @throws std::invalid_argument if `stream` refers to a stream that was destroyed or detached
   */
  std::size_t reserve(std::size_t bytes, StreamRef stream);

  /** @brief Gives back the segment at `base`, if it is wholly free. @return whether it was */
  bool release_segment(void* base);

  /**
   * @brief Asked before a request fails: those of lower `turn` first, then in order of
   *        registration. Called without the allocator's lock.
   */
  void on_out_of_memory(MemoryCallback callback, int turn = 0);

  /** @brief Bytes of the block at `address`, or 0 if it is not a live allocation. */
  [[nodiscard]] std::size_t block_size(const void* address) const;

  /** @brief A segment and its blocks, in address order: for snapshots and for restoring one. */
  struct BlockLayout {
    std::size_t offset = 0, bytes = 0, requested = 0;
    bool allocated = false;
  };
  struct SegmentLayout {
    void* base = nullptr;
    std::size_t bytes = 0;
    bool small = false;
    StreamRef stream{StreamHandle{}};  ///< whose free blocks they are, and owner of the others
    std::vector<BlockLayout> blocks;
  };
  [[nodiscard]] std::vector<SegmentLayout> layout() const;

  /** @brief Takes over segments as they are. @throws std::logic_error once anything is reserved */
  void restore(std::span<const SegmentLayout> segments);

  /**
   * @brief Walks every structure. For tests.
   * @throws std::logic_error naming the first invariant that does not hold
   */
  void check_invariants() const;

 protected:
  void allocate_batch(std::span<const std::size_t> sizes, std::span<void*> addresses,
                      StreamRef stream, Tag tag) override;
  void deallocate_batch(std::span<void* const> addresses, const StreamRef* stream) override;

 private:
  friend class GraphPool;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
