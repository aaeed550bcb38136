#include "interop/plain_streams.hpp"

namespace millrace {

PlainStreams::PlainStreams(CachingAllocator& caching, Allocator& inner, bool detects)
    : ForwardingAllocator(inner), caching_(caching), detects_(detects) {}

void* PlainStreams::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) {
  void* const address = inner().allocate(bytes, owner, first_user, tag);
  const auto found = caching_.owner(address);
  if (!found) return address;
  const bool comes_back = notes_.turns_to(found->id());
  notes_.allocated(found->id(), bytes);
  if (comes_back && is_plain(found->id())) mark(*found);
  return address;
}

void PlainStreams::deallocate(void* address) {
  const auto owner = caching_.owner(address);
  inner().deallocate(address);
  note_freed(owner);
}

void PlainStreams::deallocate(void* address, Point marker) {
  const auto owner = caching_.owner(address);
  inner().deallocate(address, marker);
  note_freed(owner);
}

void PlainStreams::deallocate(void* address, StreamRef stream) {
  const auto owner = caching_.owner(address);
  if (!owner && !caching_.is_live(address)) return inner().deallocate(address);  // which throws
  if (!owner || stream.id().valid() || detects_) {
    inner().deallocate(address, stream);
    return note_freed(owner);
  }
  const auto now = named(stream, *owner);
  const bool is_owners_handle = stream.handle() == owner->handle();
  if (!now || (is_owners_handle && now->id() != owner->id())) {
    if (now) inner().record_use(address, *now);
    inner().deallocate(address);
    return note_freed(owner);
  }
  inner().deallocate(address, *now);
  note_freed(owner);
  notes_.turns_to(now->id());
  if (is_plain(now->id()) && !notes_.has_live(now->id())) mark(*now);
}

void PlainStreams::transfer(void* address, StreamRef new_owner) {
  const auto before = caching_.owner(address);
  inner().transfer(address, new_owner);
  const auto after = caching_.owner(address);
  if (!before || !after || before->id() == after->id()) return;
  notes_.freed(before->id());
  notes_.allocated(after->id(), 0);
}

// Returns the stream that has this handle now. Returns nothing if the handle was the owner's and
// the driver does not know it any more, or if the driver was shut down: no work is left to wait
// for.
std::optional<StreamRef> PlainStreams::named(StreamRef stream, StreamRef owner) {
  try {
    return device().resolve(stream);
  } catch (const DeviceError& error) {
    const bool was_owners = stream.handle() == owner.handle();
    const bool is_gone = error.code() == ErrorCode::invalid_argument && was_owners;
    if (!is_gone && !error.sticky()) throw;
    return std::nullopt;
  }
}

void PlainStreams::note_freed(const std::optional<StreamRef>& owner) {
  if (owner) notes_.freed(owner->id());
}

void PlainStreams::mark(StreamRef stream) noexcept {
  try {
    device().mark(stream);
  } catch (const std::exception&) {  // a marker is only a hint: a later one covers the same uses
  }
}

}  // namespace millrace
