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
  std::size_t limit = 0;     ///< most bytes to reserve; 0: what the device has
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
  /** @brief Waits for the device, then gives every segment back. Live blocks become invalid. */
  ~CachingAllocator() override;

  using Allocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void record_use(void* address, StreamRef stream) override;
  void transfer(void* address, StreamRef new_owner) override;
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
  void set_limit(std::size_t bytes);

  /** @brief Gives back the segment at `base`, if it is wholly free. @return whether it was */
  bool release_segment(void* base);

  /** @brief Asked, in order, before a request fails. Called without the allocator's lock. */
  void on_out_of_memory(MemoryCallback callback);

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

 private:
  friend class GraphPool;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
