#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "millrace/memory/allocator.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/memory/segment_source.hpp"

namespace millrace {

/** @brief How much device memory a CachingAllocator may reserve. Bytes. */
struct MemoryLimits {
  std::size_t limit = 0;     ///< maximum of reserved bytes; 0: all bytes of the device
  std::size_t headroom = 0;  ///< device bytes to leave free for other users of the device
};

/**
 * @brief The stream-ordered caching allocator.
 *
 * Keeps freed blocks. A stream may take a free block if every earlier use of the block happens
 * before the stream's next operation; the policy decides when to make a stream wait for a block
 * instead of reserving more memory. docs/allocator.md describes the decisions.
 *
 *   DeviceSource source{device.device()};
 *   CachingAllocator allocator{device, source, Policy::millrace()};
 */
class CachingAllocator final : public Allocator {
 public:
  /**
   * @brief Frees memory of the caller. Gets the number of missing bytes; returns true if it freed
   *        any.
   */
  using MemoryCallback = std::function<bool(std::size_t bytes)>;

  /**
   * @brief Makes an allocator that has reserved nothing yet.
   * @param device  the streams that use the memory; outlives the allocator
   * @param source  provides the segments; outlives the allocator
   * @param policy  the decisions, usually a preset
   * @param limits  how much memory may be reserved
   */
  CachingAllocator(OrderedDevice& device, SegmentSource& source, Policy policy,
                   MemoryLimits limits = {});
  /**
   * @brief Waits for the device, then releases every segment. Live blocks become invalid.
   *
   * While a stream of the device is captured, the device cannot be synchronized. The host then
   * waits for the uses of each segment. A segment that the captured stream, or a stream that is not
   * attached, may still use stays reserved until the process ends. End captures first.
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
  /**
   * @brief Replaces the observer, and reports the present memory to the new one first.
   *
   * Reports each segment, then each live block as if it were allocated now: its owner is its first
   * user, and it has no recorded uses. Other threads may use the allocator during this call; their
   * calls are reported after that.
   * @param observer  not owned; `observe(nullptr)` ends the reports
   */
  void observe_all(AllocationObserver& observer);
  /** @brief Reports the present memory once, as `observe_all` does, and no later calls. */
  void report_all(AllocationObserver& observer) const;
  [[nodiscard]] OrderedDevice& device() const noexcept override;

  /** @brief Returns the decisions of this allocator. */
  [[nodiscard]] const Policy& policy() const noexcept;

  /**
   * @brief Sets the maximum of reserved bytes.
   *
   * If more is reserved already, the allocator does not grow until enough memory was released;
   * `trim(bytes)` releases free memory.
   * @param bytes  0: all bytes of the device
   */
  void set_limit(std::size_t bytes);

  /**
   * @brief Sets the device bytes to leave free, from the allocator's next query of the device on.
   *        Growths of other threads that were allowed before still happen.
   */
  void set_headroom(std::size_t bytes);

  /**
   * @brief Reserves one piece of device memory now, from which `stream` takes blocks later.
   *
   * Large requests of the stream then reserve nothing until they occupy `bytes`. A request occupies
   * its size rounded up to the granule, and up to `Policy::slack` of that more (25% in `millrace`),
   * because a remainder that is too small to split off stays with the block. Requests up to
   * `Policy::small_limit` have segments of their own; the piece serves them only if `bytes` is
   * at most that limit. Free complete memory directly before the piece, in the stream's growable
   * range, counts toward `bytes`. Except with Sharing::own_stream, other streams may take blocks of
   * the piece by the usual rule. Reserved memory is released after all other free memory; in a
   * growable range this holds for the whole range, until it is empty.
   *
   * If `stream` is captured, the piece is general memory anyway. The graph pool of the
   * capture takes complete memory of other streams before it gets new memory, so it takes the piece
   * too, except with Sharing::own_stream. GraphPool::reserve, before the capture, is for that pool
   * alone.
   * @return size of the piece, at least `bytes`
   * @throws out_of_memory if the limit, the headroom or the device forbid it, also after cached
   *         memory was released. Caches may have shrunk; nothing else has changed. Callbacks of
   *         `on_out_of_memory` are not called.
   * @throws std::invalid_argument if `stream` refers to a stream that was destroyed or detached
   */
  std::size_t reserve(std::size_t bytes, StreamRef stream);

  /**
   * @brief Releases the segment at `base` if it is completely free.
   * @return whether it was released
   */
  bool release_segment(void* base);

  /**
   * @brief Unmaps pages of growable ranges. Unmaps an entry only if one free block contains it.
   *
   * For replays with Policy::expandable_segments: with other policies, pages may have moved.
   * @param pages  in address order, in whole pages of their range; other entries are ignored
   * @return the bytes that were unmapped
   */
  std::size_t release_pages(std::span<const AddressRange> pages);

  /**
   * @brief Registers a callback that is called before a request fails, without the allocator's
   *        lock. If it frees memory, the request is tried again.
   * @param callback  frees memory of the caller
   * @param turn      callbacks with a lower number are called first; equal ones in registration
   *                  order
   */
  void on_out_of_memory(MemoryCallback callback, int turn = 0);

  /**
   * @brief Returns the size of the block at `address` in bytes; 0 if it is not a live allocation.
   */
  [[nodiscard]] std::size_t block_size(const void* address) const;

  /**
   * @brief Returns the stream on which a plain free of `address` would be ordered. Without graph
   *        pools it takes no lock. No other thread may free or transfer the block at the same time.
   * @return std::nullopt if `address` is not a live allocation, or is memory of a graph pool
   */
  [[nodiscard]] std::optional<StreamRef> owner(const void* address) const;

  /** @brief A block of a segment, live or free. */
  struct BlockLayout {
    std::size_t offset = 0, bytes = 0, requested = 0;
    bool allocated = false;
  };
  /** @brief A segment, for snapshots and for restoring one. */
  struct SegmentLayout {
    void* base = nullptr;
    std::size_t bytes = 0;
    bool small = false;
    bool in_range = false;             ///< whole pages of a growable range
    StreamRef stream{StreamHandle{}};  ///< may use the free blocks, and owns the live ones
    std::vector<BlockLayout> blocks;   ///< in address order; they tile the segment
  };
  /** @brief Returns all segments with their blocks. */
  [[nodiscard]] std::vector<SegmentLayout> layout() const;

  /** @brief A range of addresses in which `restore` puts segments, and later requests map pages. */
  struct RangeLayout {
    void* base = nullptr;
    std::size_t bytes = 0;             ///< addresses, in whole pages
    std::size_t page = 0;              ///< bytes of each page
    bool small = false;                ///< whether its requests are those of the small pool
    StreamRef stream{StreamHandle{}};  ///< whose requests map memory in it
  };

  /**
   * @brief Adopts segments with their blocks, for a replay that starts in the middle of a trace.
   * @param segments  in any order; one with `in_range` is in the range with the last base before it
   * @param ranges    may have no segment yet. The source must be able to map and unmap in them.
   * @throws std::invalid_argument if blocks do not tile their segment; if a segment with `in_range`
   *         is in no range, does not consist of whole pages of it, or overlaps another one; if a
   *         range has no pages; or if two ranges begin at one address
   * @throws std::logic_error if anything is reserved already
   */
  void restore(std::span<const SegmentLayout> segments, std::span<const RangeLayout> ranges = {});

  /**
   * @brief Checks every invariant of the allocator's structures. For tests.
   * @throws std::logic_error that names the first invariant that does not hold
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
