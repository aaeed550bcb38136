#include "device/virtual/memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace millrace::simulation {
namespace {

constexpr std::size_t kPage = 4096;
// Holes between allocations do not use memory up: a device has this many times its size in
// addresses.
constexpr std::size_t kAddressesPerByte = 2;

std::size_t round_up(std::size_t bytes, std::size_t granularity) {
  return (bytes + granularity - 1) / granularity * granularity;
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::byte* map(void* where, std::size_t bytes, int protection, int flags, int file) {
  void* const address = mmap(where, bytes, protection, flags | MAP_NORESERVE, file, 0);
  if (address == MAP_FAILED) fail("mapping the memory of a virtual device");
  return static_cast<std::byte*>(address);
}

void poison([[maybe_unused]] std::byte* address, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(address, bytes);
#endif
}

void unpoison([[maybe_unused]] std::byte* address, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(address, bytes);
#endif
}

}  // namespace

Reservation::Reservation(std::size_t bytes)
    : base_(map(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1)), size_(bytes) {}

Reservation::~Reservation() { munmap(base_, size_); }

bool Reservation::contains(const void* address) const noexcept { return offset(address) < size_; }

std::size_t Reservation::offset(const void* address) const noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_);
}

DeviceMemory::DeviceMemory(std::size_t bytes, std::size_t granularity, bool data)
    : total_(bytes / granularity * granularity),
      granularity_(granularity),
      addresses_(total_ * kAddressesPerByte),
      space_(addresses_.size()) {
  if (!data) return;
  file_ = memfd_create("millrace virtual device", MFD_CLOEXEC);
  if (file_ < 0) fail("making the memory of a virtual device");
  if (ftruncate(file_, static_cast<off_t>(addresses_.size())) != 0) {
    close(file_);
    fail("sizing the memory of a virtual device");
  }
  kernel_base_ = map(nullptr, addresses_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file_);
}

DeviceMemory::~DeviceMemory() {
  if (kernel_base_ == nullptr) return;
  for (const auto& [offset, size] : space_.taken()) unpoison(kernel_base_ + offset, size);
  munmap(kernel_base_, addresses_.size());
  close(file_);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > total_) return nullptr;
  const std::size_t size = round_up(bytes, granularity_);
  if (size > total_ - used()) return nullptr;
  const auto offset = space_.take(size);
  if (!offset) return nullptr;
  if (kernel_base_ != nullptr) poison(kernel_base_ + *offset, size);
  return addresses_.base() + *offset;
}

std::size_t DeviceMemory::free(void* address) {
  const std::size_t at = offset(address);
  const std::size_t size = space_.give(at);
  if (size > 0 && kernel_base_ != nullptr) {
    unpoison(kernel_base_ + at, size);
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
              static_cast<off_t>(size));
  }
  return size;
}

bool DeviceMemory::holds(const void* address, std::size_t bytes) const noexcept {
  return contains(address) && space_.holds(offset(address), bytes);
}

std::byte* DeviceMemory::kernel_address(const void* address) const noexcept {
  return kernel_base_ + offset(address);
}

void* PinnedMemory::allocate(std::size_t bytes) {
  if (bytes > bytes_) return nullptr;
  if (!arena_) arena_.emplace(bytes_);
  const std::size_t size = round_up(bytes, kPage);
  const auto offset = space_.take(size);
  if (!offset) return nullptr;
  std::byte* const address = arena_->base() + *offset;
  if (mprotect(address, size, PROT_READ | PROT_WRITE) != 0) {
    space_.give(*offset);
    return nullptr;
  }
  return address;
}

std::size_t PinnedMemory::free(void* address) {
  if (!arena_) return 0;
  const std::size_t size = space_.give(arena_->offset(address));
  if (size > 0) {
    map(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
  }
  return size;
}

bool PinnedMemory::holds(const void* address, std::size_t bytes) const noexcept {
  return contains(address) && space_.holds(arena_->offset(address), bytes);
}

KernelAccess::KernelAccess(std::span<const std::span<std::byte>> device_views)
    : views_(device_views) {
  for (const auto view : views_) unpoison(view.data(), view.size());
}

KernelAccess::~KernelAccess() {
  for (const auto view : views_) poison(view.data(), view.size());
}

}  // namespace millrace::simulation
