#pragma once

#include <optional>

#include "interop/stream_notes.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/forwarding_allocator.hpp"

namespace millrace {

/**
 * @brief An allocator for programs that report nothing: it records markers on streams that are not
 *        attached, in calls that were given them.
 *
 * A marker is what lets a poll find that a stream is through with what it freed. It is recorded
 *   - when the calling thread comes back to a stream from another one: a phase ends;
 *   - when a free that names the stream leaves it without a live allocation: it may be the last
 *     call that names it;
 *   - when another stream wanted memory that is not covered (OrderedDevice::cover).
 * Memory of streams that were destroyed before is complete once the device has been synchronized.
 *
 * A free by a handle that was the owner's and is not any more never trusts the handle: the block
 * then waits for the owner, and for the stream that has the handle now.
 */
class PlainStreams final : public ForwardingAllocator {
 public:
  /**
   * @param caching  whose live allocations have owners
   * @param inner    serves every call: `caching`, or what forwards to it
   * @param detects  `inner` wants to see handles before they are looked up (CaptureDetector)
   */
  PlainStreams(CachingAllocator& caching, Allocator& inner, bool detects);

  using Allocator::allocate;
  void* allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag = {}) override;
  void deallocate(void* address) override;
  void deallocate(void* address, StreamRef stream) override;
  void deallocate(void* address, Point marker) override;
  void transfer(void* address, StreamRef new_owner) override;

 private:
  [[nodiscard]] std::optional<StreamRef> named(StreamRef stream, StreamRef owner);
  [[nodiscard]] bool is_plain(StreamId stream) const { return !device().attached(stream); }
  void note_freed(const std::optional<StreamRef>& owner);
  void mark(StreamRef stream) noexcept;

  CachingAllocator& caching_;
  const bool detects_;
  StreamNotes notes_;
};

}  // namespace millrace
