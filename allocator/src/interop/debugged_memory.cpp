#include "interop/debugged_memory.hpp"

namespace millrace {

void* NotedSource::acquire(std::size_t bytes) {
  void* const base = inner_.acquire(bytes);
  try {
    notes_.heap_added(base, bytes);
  } catch (...) {
    inner_.release(base, bytes);
    throw;
  }
  return base;
}

void NotedSource::release(void* base, std::size_t bytes) {
  notes_.heap_removed(base);
  inner_.release(base, bytes);
}

void* DebuggedMemory::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) {
  void* const address = inner().allocate(bytes, owner, first_user, tag);
  if (address == nullptr) return nullptr;
  try {
    if (notes_ != nullptr) note(address, bytes);
    // A captured stream would only record the fill, the legacy stream may be blocked by a capture,
    // and a host callback may make no driver call.
    if (poisons_ && !in_host_callback() && !is_of_graph(address) &&
        device().device().capture_status(first_user.handle()) == CaptureStatus::none)
      device().device().fill(address, kPoison, bytes, first_user.handle());
  } catch (...) {
    deallocate(address);
    throw;
  }
  return address;
}

// A graph uses such memory at each launch, even after the program has freed it.
void DebuggedMemory::record_use(void* address, StreamRef stream) {
  inner().record_use(address, stream);
  if (notes_ == nullptr || address == nullptr || in_host_callback()) return;
  if (is_captured(device().device().capture_status(stream.handle())) && !is_of_graph(address))
    notes_->kept_by_graph(address, caching_.block_size(address));
}

// Memory of a graph pool has no owner in the caching allocator.
bool DebuggedMemory::is_of_graph(const void* address) const {
  return !caching_.owner(address).has_value();
}

void DebuggedMemory::note(void* address, std::size_t bytes) {
  if (is_of_graph(address)) {
    notes_->handed_to_graph(address, bytes);
  } else {
    notes_->handed_out(address, bytes);
  }
}

// A free is reported before it happens, because another thread may get the address right after it.
template <typename Free>
void DebuggedMemory::free(void* address, const Free& free) {
  if (notes_ == nullptr || address == nullptr || !inner().is_live(address) ||
      is_of_graph(address) || notes_->is_kept_by_graph(address))
    return free();
  const std::size_t bytes = caching_.block_size(address);
  notes_->taken_back(address);
  try {
    free();
  } catch (...) {
    notes_->handed_out(address, bytes);
    throw;
  }
}

void DebuggedMemory::deallocate(void* address) {
  free(address, [&] { inner().deallocate(address); });
}
void DebuggedMemory::deallocate(void* address, StreamRef stream) {
  free(address, [&] { inner().deallocate(address, stream); });
}
void DebuggedMemory::deallocate(void* address, Point marker) {
  free(address, [&] { inner().deallocate(address, marker); });
}

}  // namespace millrace
