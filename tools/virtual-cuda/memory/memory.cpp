#include "memory/memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>

#include "millrace/round_up.hpp"

namespace millrace::virtual_cuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kWorthReturning = std::size_t{1} << 20;

[[noreturn]] void refuse(const char* action, std::size_t bytes) {
  throw std::runtime_error(std::string{"the virtual GPUs' memory cannot be "} + action + " (" +
                           std::to_string(bytes >> 30) + " GiB of address space): " +
                           std::strerror(errno) + "; see ulimit -v and vm.overcommit_memory");
}

// Address space of ranges. Allocators reserve a multiple of the GPU's memory, and more than once.
// Many large GPUs get a smaller multiple, because the process needs this space twice.
constexpr std::size_t kRangesForGpu = 34;  // in units of its memory
constexpr std::size_t kMostForRanges = std::size_t{16} << 40;
constexpr std::size_t kLeastForGpu = 2;

std::size_t bytes_of_ranges(std::size_t memory) {
  return std::max(std::min(memory * kRangesForGpu, kMostForRanges), memory * kLeastForGpu);
}

}  // namespace

Memory::Memory(unsigned gpus, std::size_t bytes_of_each)
    : stride_{round_up(bytes_of_each, kPage)}, bytes_{bytes_of_each}, peaks_(gpus) {
  const std::size_t memory = stride_ * gpus;
  span_ = memory + bytes_of_ranges(memory);
  void* const all =
      mmap(nullptr, 2 * span_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) refuse("reserved", 2 * span_);
  base_ = reinterpret_cast<std::uintptr_t>(all);
  file_ = memfd_create("millrace virtual GPUs", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(2 * memory)) != 0 ||
      mmap(reinterpret_cast<void*>(base_ + span_), memory, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, 0) == MAP_FAILED)
    refuse("mapped", memory);
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    spaces_.emplace_back(bytes_of_each);
    pages_.emplace_back(bytes_of_each);
  }
}

unsigned Memory::gpu_of(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  if (in_gpu(address)) return static_cast<unsigned>((value - base_) / stride_);
  const auto entry = shown_.upper_bound(value);
  return entry == shown_.begin() ? 0 : std::prev(entry)->second.gpu;
}

Memory::Range Memory::range_region() const noexcept {
  const std::size_t memory = stride_ * spaces_.size();
  return {base_ + memory, span_ - memory};
}

std::optional<std::size_t> Memory::take_pages(unsigned gpu, std::size_t bytes) {
  if (bytes > bytes_ - used(gpu)) return std::nullopt;
  const std::optional<std::size_t> pages = pages_[gpu].take(bytes);
  if (pages) peaks_[gpu] = std::max(peaks_[gpu], used(gpu));
  return pages;
}

void Memory::give_pages(unsigned gpu, std::size_t pages) {
  return_to_system(file_offset(gpu, pages), pages_[gpu].give(pages));
}

// The next user of such memory finds zeros. A GPU's memory may have any content.
void Memory::return_to_system(std::size_t offset, std::size_t bytes) const {
  if (bytes < kWorthReturning) return;
  const std::size_t begin = round_up(offset, kPage);
  const std::size_t end = (offset + bytes) / kPage * kPage;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(end - begin));
}

bool Memory::show(void* address, unsigned gpu, std::size_t pages, std::size_t bytes) {
  if (mmap(data(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
           file_, static_cast<off_t>(file_offset(gpu, pages))) == MAP_FAILED)
    return false;
  shown_[reinterpret_cast<std::uintptr_t>(address)] = {bytes, gpu};
  return true;
}

void Memory::hide(void* address, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  mmap(data(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  shown_.erase(shown_.lower_bound(start), shown_.lower_bound(start + bytes));
}

void* Memory::take(unsigned gpu, std::size_t bytes) {
  if (bytes > bytes_ - used(gpu)) return nullptr;
  simulation::AddressSpace& space = spaces_[gpu];
  const std::optional<std::size_t> offset = space.take(round_up(bytes, kAlignment));
  if (!offset) return nullptr;
  peaks_[gpu] = std::max(peaks_[gpu], used(gpu));
  return reinterpret_cast<void*>(base_ + gpu * stride_ + *offset);
}

bool Memory::give(void* address) {
  if (!in_gpu(address)) return false;
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - base_;
  const std::size_t bytes = spaces_[gpu_of(address)].give(offset % stride_);
  if (bytes == 0) return false;
  return_to_system(offset, bytes);
  return true;
}

std::optional<Memory::Range> Memory::piece(const void* address) const {
  if (!in_gpu(address)) return std::nullopt;
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

bool Memory::give_host(void* address, Kind kind, const CUmemPoolHandle_st* pool) {
  const auto entry = host_.find(reinterpret_cast<std::uintptr_t>(address));
  if (entry == host_.end() || entry->second.kind != kind || entry->second.pool != pool)
    return false;
  pinned_ -= entry->second.bytes;
  if (kind == Kind::managed) advice_.forget(address, entry->second.bytes);
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
