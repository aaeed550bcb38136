#include "memory/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace millrace::virtual_cuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kWorthReturning = std::size_t{1} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

[[noreturn]] void refuse(const char* action, std::size_t bytes) {
  throw std::runtime_error(std::string{"the virtual GPUs' memory cannot be "} + action + " (" +
                           std::to_string(bytes >> 30) + " GiB of address space): " +
                           std::strerror(errno) + "; see ulimit -v and vm.overcommit_memory");
}

// The kernel takes the pages back. The next user finds zeros, as a GPU may or may not have it.
void return_pages(std::byte* data, std::size_t bytes) {
  if (bytes < kWorthReturning) return;
  const auto begin = round_up(reinterpret_cast<std::uintptr_t>(data), kPage);
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace

Memory::Memory(unsigned gpus, std::size_t bytes_of_each)
    : stride_{round_up(bytes_of_each, kPage)}, bytes_{bytes_of_each}, peaks_(gpus) {
  span_ = stride_ * gpus;
  void* const all =
      mmap(nullptr, 2 * span_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) refuse("reserved", 2 * span_);
  base_ = reinterpret_cast<std::uintptr_t>(all);
  if (mmap(reinterpret_cast<void*>(base_ + span_), span_, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    refuse("mapped", span_);
  for (unsigned gpu = 0; gpu < gpus; ++gpu) spaces_.emplace_back(bytes_of_each);
}

void* Memory::take(unsigned gpu, std::size_t bytes) {
  if (bytes > bytes_) return nullptr;
  simulation::AddressSpace& space = spaces_[gpu];
  const std::optional<std::size_t> offset = space.take(round_up(bytes, kAlignment));
  if (!offset) return nullptr;
  peaks_[gpu] = std::max(peaks_[gpu], space.taken_bytes());
  return reinterpret_cast<void*>(base_ + gpu * stride_ + *offset);
}

bool Memory::give(void* address) {
  if (!on_device(address)) return false;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - base_;
  const std::size_t bytes = spaces_[gpu_of(address)].give(offset % stride_);
  if (bytes == 0) return false;
  return_pages(data(address), bytes);
  return true;
}

std::optional<Memory::Range> Memory::piece(const void* address) const {
  if (!on_device(address)) return std::nullopt;
  const unsigned gpu = gpu_of(address);
  const std::uintptr_t start = base_ + gpu * stride_;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - start;
  const auto& taken = spaces_[gpu].taken();
  auto entry = taken.upper_bound(offset);
  if (entry == taken.begin()) return std::nullopt;
  --entry;
  if (offset - entry->first >= entry->second) return std::nullopt;
  return Range{start + entry->first, entry->second};
}

void* Memory::take_host(std::size_t bytes, const HostRange& range) {
  void* const address = std::aligned_alloc(kPage, round_up(bytes, kPage));
  if (address == nullptr) return nullptr;
  HostRange made = range;
  made.bytes = bytes;
  host_[reinterpret_cast<std::uintptr_t>(address)] = made;
  pinned_ += bytes;
  peak_pinned_ = std::max(peak_pinned_, pinned_);
  return address;
}

bool Memory::give_host(void* address, Kind kind) {
  const auto entry = host_.find(reinterpret_cast<std::uintptr_t>(address));
  if (entry == host_.end() || entry->second.kind != kind) return false;
  pinned_ -= entry->second.bytes;
  host_.erase(entry);
  std::free(address);
  return true;
}

bool Memory::register_host(void* address, const HostRange& range) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const auto next = host_.lower_bound(begin);
  if (next != host_.end() && next->first < begin + range.bytes) return false;
  if (host_range(address) != nullptr) return false;
  host_[begin] = range;
  return true;
}

bool Memory::unregister_host(void* address) {
  const auto entry = host_.find(reinterpret_cast<std::uintptr_t>(address));
  if (entry == host_.end() || entry->second.kind != Kind::registered) return false;
  host_.erase(entry);
  return true;
}

const Memory::HostRange* Memory::host_range(const void* address, std::uintptr_t* start) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  auto entry = host_.upper_bound(value);
  if (entry == host_.begin()) return nullptr;
  --entry;
  if (value - entry->first >= entry->second.bytes) return nullptr;
  if (start != nullptr) *start = entry->first;
  return &entry->second;
}

Memory::Kind Memory::kind_of(const void* address) const {
  if (on_device(address)) return Kind::device;
  const HostRange* const range = host_range(address);
  return range == nullptr ? Kind::pageable : range->kind;
}

}  // namespace millrace::virtual_cuda
