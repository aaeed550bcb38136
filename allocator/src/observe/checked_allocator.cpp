#include "millrace/observe/checked_allocator.hpp"

namespace millrace {

void* CheckedAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user,
                                 Tag tag) {
  void* const address = inner().allocate(bytes, owner, first_user, tag);
  if (address == nullptr) return nullptr;
  if (memory_ == CheckedMemory::pinned) {
    checking_.allocated_for_host(address, bytes);
  } else {
    checking_.allocated(address, bytes, device_, first_user.handle());
  }
  return address;
}

void CheckedAllocator::deallocate(void* address) {
  if (address != nullptr) checking_.freed(address);
  inner().deallocate(address);
}

void CheckedAllocator::deallocate(void* address, StreamRef stream) {
  if (address != nullptr) checking_.freed(address);
  inner().deallocate(address, stream);
}

void CheckedAllocator::deallocate(void* address, Point marker) {
  if (address != nullptr) checking_.freed(address);
  inner().deallocate(address, marker);
}

}  // namespace millrace
