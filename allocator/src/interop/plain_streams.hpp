#pragma once

#include <optional>

#include "interop/stream_notes.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/forwarding_allocator.hpp"

namespace millrace {

/**
 * @brief Records markers on streams that are not attached, for programs that record none.
 *
 * A poll needs a marker to find that a stream has completed its work on a freed block. The marker
 * is recorded in a call that names the stream:
 *   - when the calling thread returns to a stream from another one, because a phase may have ended
 *   - when a free leaves the stream without a live allocation, because it may be the last call that
 *     names the stream
 *   - when another stream needed memory that no marker covers (OrderedDevice::cover)
 * Memory of a stream that was destroyed before that is complete after the device was synchronized.
 *
 * If a free names a handle that was the owner's and now belongs to another stream, the block waits
 * for both streams.
 */
class PlainStreams final : public ForwardingAllocator {
 public:
  /**
   * @param caching  gives the owners of live allocations
   * @param inner    serves every call: `caching`, or an allocator that forwards to it
   * @param detects  whether `inner` needs raw handles, before they are resolved (CaptureDetector)
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
