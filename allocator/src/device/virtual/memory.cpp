#include "device/virtual/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "device/range_page.hpp"
#include "device/virtual/host_memory.hpp"
#include "millrace/round_up.hpp"

namespace millrace::simulation {
namespace {

constexpr std::size_t kPage = 4096;
// A device has this many times its size in addresses, so that holes between allocations do not use
// them up.
constexpr std::size_t kAddressesPerByte = 2;
// Addresses for all ranges together.
constexpr std::size_t kPositions = std::size_t{1} << 46;

}  // namespace

Reservation::Reservation(std::size_t bytes)
    : base_(map_memory(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1)), size_(bytes) {}

Reservation::~Reservation() { munmap(base_, size_); }

bool Reservation::contains(const void* address) const noexcept { return offset(address) < size_; }

std::size_t Reservation::offset(const void* address) const noexcept {
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base_);
}

Arena::Arena(std::size_t bytes, bool data) : addresses_(bytes) {
  if (!data) return;
  file_ = make_memory_file("millrace virtual device", bytes);
  kernel_base_ = map_memory(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_);
}

Arena::~Arena() {
  if (kernel_base_ == nullptr) return;
  munmap(kernel_base_, addresses_.size());
  close(file_);
}

void Arena::appear(std::size_t offset, std::size_t bytes) {
  if (kernel_base_ != nullptr) poison(kernel_base_ + offset, bytes);
}

void Arena::vanish(std::size_t offset, std::size_t bytes) {
  if (kernel_base_ == nullptr) return;
  unpoison(kernel_base_ + offset, bytes);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

void Arena::forget(std::size_t offset, std::size_t bytes) {
  if (kernel_base_ != nullptr) unpoison(kernel_base_ + offset, bytes);
}

GrowableRange::GrowableRange(std::size_t bytes, bool data) : addresses(bytes) {
  if (data) kernel.emplace(bytes);
}

GrowableRange::~GrowableRange() {
  if (!kernel) return;
  for (const auto& [offset, bytes] : mapped.pieces()) unpoison(kernel->base() + offset, bytes);
}

DeviceMemory::DeviceMemory(std::size_t bytes, std::size_t granularity, bool data)
    : total_(bytes / granularity * granularity),
      granularity_(granularity),
      data_(data),
      arena_(total_ * kAddressesPerByte, data),
      space_(total_ * kAddressesPerByte),
      positions_(kPositions),
      pages_(range_page(granularity, total_), total_, data) {}

DeviceMemory::~DeviceMemory() {
  for (const auto& [offset, size] : space_.taken()) arena_.forget(offset, size);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > total_) return nullptr;
  const std::size_t size = round_up(bytes, granularity_);
  if (size > total_ - used()) return nullptr;
  const auto offset = space_.take(size);
  if (!offset) return nullptr;
  arena_.appear(*offset, size);
  return arena_.at(*offset);
}

std::size_t DeviceMemory::free(void* address) {
  const std::size_t at = arena_.addresses().offset(address);
  const std::size_t size = space_.give(at);
  if (size > 0) arena_.vanish(at, size);
  return size;
}

void* DeviceMemory::reserve(std::size_t bytes) {
  const auto position = positions_.take(bytes);
  if (!position) return nullptr;
  auto range = std::make_unique<GrowableRange>(bytes, data_);
  range->position = *position;
  std::byte* const base = range->addresses.base();
  ranges_.emplace(base, std::move(range));
  return base;
}

GrowableRange* DeviceMemory::range_at(const void* base) noexcept {
  const auto range = ranges_.find(static_cast<const std::byte*>(base));
  return range == ranges_.end() ? nullptr : range->second.get();
}

GrowableRange* DeviceMemory::range_of(const void* address, std::size_t bytes) noexcept {
  auto* const range = const_cast<GrowableRange*>(range_with(address));
  if (range == nullptr) return nullptr;
  const Reservation& addresses = range->addresses;
  return bytes <= addresses.size() - addresses.offset(address) ? range : nullptr;
}

void DeviceMemory::release(const void* base) {
  const auto range = ranges_.find(static_cast<const std::byte*>(base));
  positions_.give(range->second->position);
  ranges_.erase(range);
}

void DeviceMemory::show(GrowableRange& range, std::size_t offset, PhysicalPages::Page page) {
  range.pages[offset] = page;
  if (range.kernel) pages_.show(page, range.kernel_address(offset));
}

bool DeviceMemory::map(GrowableRange& range, const void* address, std::size_t bytes) {
  const std::size_t offset = range.addresses.offset(address);
  if (!range.mapped.add(offset, bytes)) return false;
  for (std::size_t at = 0; at < bytes; at += pages_.page_bytes()) {
    show(range, offset + at, pages_.take());
  }
  return true;
}

bool DeviceMemory::alias(GrowableRange& range, const void* to, const GrowableRange& source,
                         const void* from, std::size_t bytes) {
  const std::size_t offset = range.addresses.offset(to);
  const std::size_t first = source.addresses.offset(from);
  if (!range.mapped.add(offset, bytes)) return false;
  for (std::size_t at = 0; at < bytes; at += pages_.page_bytes()) {
    const PhysicalPages::Page page = source.pages.at(first + at);
    pages_.share(page);
    show(range, offset + at, page);
  }
  return true;
}

bool DeviceMemory::unmap(GrowableRange& range, const void* address, std::size_t bytes) {
  const std::size_t offset = range.addresses.offset(address);
  if (!range.mapped.remove(offset, bytes)) return false;
  for (std::size_t at = 0; at < bytes; at += pages_.page_bytes()) {
    const auto page = range.pages.find(offset + at);
    pages_.drop(page->second);
    range.pages.erase(page);
  }
  if (range.kernel) {
    // Erroneous work that still uses these addresses finds other memory there and does not crash.
    std::byte* const hidden = range.kernel_address(offset);
    unpoison(hidden, bytes);
    map_memory(hidden, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
  }
  return true;
}

const GrowableRange* DeviceMemory::range_with(const void* address) const noexcept {
  const auto next = ranges_.upper_bound(static_cast<const std::byte*>(address));
  if (next == ranges_.begin()) return nullptr;
  const GrowableRange& range = *std::prev(next)->second;
  return range.addresses.contains(address) ? &range : nullptr;
}

bool DeviceMemory::contains(const void* address) const noexcept {
  return arena_.addresses().contains(address) || range_with(address) != nullptr;
}

bool DeviceMemory::starts(const void* address) const noexcept {
  return space_.starts(arena_.addresses().offset(address));
}

bool DeviceMemory::holds(const void* address, std::size_t bytes) const noexcept {
  const Reservation& addresses = arena_.addresses();
  if (addresses.contains(address)) return space_.holds(addresses.offset(address), bytes);
  const GrowableRange* const range = range_with(address);
  return range != nullptr && range->mapped.holds(range->addresses.offset(address), bytes);
}

std::size_t DeviceMemory::offset(const void* address) const noexcept {
  const GrowableRange* const range = range_with(address);
  if (range == nullptr) return arena_.addresses().offset(address);
  return arena_.addresses().size() + range->position + range->addresses.offset(address);
}

std::byte* DeviceMemory::kernel_address(const void* address) const noexcept {
  const GrowableRange* const range = range_with(address);
  if (range != nullptr) return range->kernel_address(range->addresses.offset(address));
  return arena_.kernel_address(arena_.addresses().offset(address));
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
    map_memory(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
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
