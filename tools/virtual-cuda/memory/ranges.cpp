#include "memory/ranges.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace millrace::virtual_cuda {
namespace {

bool whole_pages(std::size_t bytes) { return bytes != 0 && bytes % Ranges::kGranularity == 0; }

// Ranges begin at the first multiple of the granularity.
std::uintptr_t first_address(const Memory& memory) {
  const std::uintptr_t begin = memory.range_region().begin;
  return (begin + Ranges::kGranularity - 1) / Ranges::kGranularity * Ranges::kGranularity;
}

}  // namespace

Ranges::Ranges(Memory& memory)
    : memory_{&memory}, space_{memory.range_region().bytes - Ranges::kGranularity} {}

cudaError_t Ranges::reserve(std::uintptr_t& address, std::size_t bytes, std::size_t alignment) {
  if (!whole_pages(bytes)) return cudaErrorInvalidValue;
  if (alignment > kGranularity) return cudaErrorNotSupported;
  const std::optional<std::size_t> offset = space_.take(bytes);
  if (!offset) return cudaErrorMemoryAllocation;
  address = first_address(*memory_) + *offset;
  return cudaSuccess;
}

cudaError_t Ranges::release(std::uintptr_t address, std::size_t bytes) {
  const std::uintptr_t offset = address - first_address(*memory_);
  const auto entry = space_.taken().find(offset);
  if (entry == space_.taken().end() || entry->second != bytes) return cudaErrorInvalidValue;
  const auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first < address + bytes) return cudaErrorInvalidValue;
  space_.give(offset);
  return cudaSuccess;
}

cudaError_t Ranges::create(std::uint64_t& handle, std::size_t bytes, unsigned gpu,
                           bool exportable) {
  if (!whole_pages(bytes)) return cudaErrorInvalidValue;
  drop_closed();
  const std::optional<std::size_t> pages = memory_->take_pages(gpu, bytes);
  if (!pages) return cudaErrorMemoryAllocation;
  handle = ++handles_;
  pieces_[handle] = {.pages = *pages, .bytes = bytes, .gpu = gpu, .exportable = exportable};
  return cudaSuccess;
}

cudaError_t Ranges::share(int& file, std::uint64_t handle) {
  drop_closed();
  const auto entry = pieces_.find(handle);
  if (entry == pieces_.end() || !entry->second.exportable) return cudaErrorInvalidValue;
  const int made = files_.make(handle);
  if (made < 0) return cudaErrorOperatingSystem;
  ++entry->second.references;
  file = made;
  return cudaSuccess;
}

std::optional<std::uint64_t> Ranges::import(int file) {
  const std::optional<std::uint64_t> handle = files_.find(file);
  if (handle) keep(*handle);
  return handle;
}

// Adds a handle of the program. The piece exists, because a file or mapping has a reference.
void Ranges::keep(std::uint64_t handle) {
  Piece& piece = pieces_.at(handle);
  ++piece.references;
  ++piece.handles;
}

cudaError_t Ranges::release(std::uint64_t handle) {
  drop_closed();
  const auto entry = pieces_.find(handle);
  if (entry == pieces_.end() || entry->second.handles == 0) return cudaErrorInvalidValue;
  --entry->second.handles;
  return drop(handle);
}

void Ranges::drop_closed() {
  for (const std::uint64_t handle : files_.take_closed()) static_cast<void>(drop(handle));
}

cudaError_t Ranges::drop(std::uint64_t handle) {
  const auto entry = pieces_.find(handle);
  if (entry == pieces_.end()) return cudaErrorInvalidValue;
  if (--entry->second.references != 0) return cudaSuccess;
  memory_->give_pages(entry->second.gpu, entry->second.pages);
  pieces_.erase(entry);
  return cudaSuccess;
}

cudaError_t Ranges::map(std::uintptr_t address, std::size_t bytes, std::uint64_t handle) {
  const auto entry = pieces_.find(handle);
  if (entry == pieces_.end() || entry->second.bytes != bytes) return cudaErrorInvalidValue;
  if (!space_.holds(address - first_address(*memory_), bytes)) return cudaErrorInvalidValue;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return cudaErrorAlreadyMapped;
  if (next != mappings_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second.bytes > address) return cudaErrorAlreadyMapped;
  }
  Piece& piece = entry->second;
  if (!memory_->show(reinterpret_cast<void*>(address), piece.gpu, piece.pages, bytes))
    return cudaErrorMemoryAllocation;
  ++piece.references;
  mappings_[address] = {bytes, handle, {}};
  return cudaSuccess;
}

cudaError_t Ranges::unmap(std::uintptr_t address, std::size_t bytes) {
  if (!covered(address, bytes)) return cudaErrorInvalidValue;
  memory_->hide(reinterpret_cast<void*>(address), bytes);
  for (auto entry = mappings_.lower_bound(address);
       entry != mappings_.end() && entry->first < address + bytes;) {
    static_cast<void>(drop(entry->second.handle));
    entry = mappings_.erase(entry);
  }
  return cudaSuccess;
}

cudaError_t Ranges::set_access(std::uintptr_t address, std::size_t bytes, unsigned gpu,
                               cudaMemAccessFlags access) {
  if (!covered(address, bytes)) return cudaErrorInvalidValue;
  for (auto entry = mappings_.find(address);
       entry != mappings_.end() && entry->first < address + bytes; ++entry)
    entry->second.access[gpu] = access;
  return cudaSuccess;
}

std::optional<cudaMemAccessFlags> Ranges::access(std::uintptr_t address, unsigned gpu) const {
  const auto mapping = find(address);
  if (mapping == mappings_.end()) return std::nullopt;
  const auto given = mapping->second.access.find(gpu);
  return given == mapping->second.access.end() ? cudaMemAccessFlagsProtNone : given->second;
}

bool Ranges::accessible(std::uintptr_t address, std::size_t bytes) const {
  const auto allows = [](const auto& given) { return given.second != cudaMemAccessFlagsProtNone; };
  const std::uintptr_t end = address + bytes;
  while (address < end) {
    const auto entry = find(address);
    if (entry == mappings_.end()) return false;
    const Mapping& mapping = entry->second;
    if (std::none_of(mapping.access.begin(), mapping.access.end(), allows)) return false;
    address = entry->first + mapping.bytes;
  }
  return true;
}

std::optional<Memory::Range> Ranges::mapping(std::uintptr_t address) const {
  const auto entry = find(address);
  if (entry == mappings_.end()) return std::nullopt;
  return Memory::Range{entry->first, entry->second.bytes};
}

std::map<std::uintptr_t, Ranges::Mapping>::const_iterator Ranges::find(
    std::uintptr_t address) const {
  auto entry = mappings_.upper_bound(address);
  if (entry == mappings_.begin()) return mappings_.end();
  --entry;
  return address - entry->first < entry->second.bytes ? entry : mappings_.end();
}

std::optional<std::uint64_t> Ranges::retain(std::uintptr_t address) {
  const std::optional<Memory::Range> found = mapping(address);
  if (!found) return std::nullopt;
  const std::uint64_t handle = mappings_.at(found->begin).handle;
  keep(handle);
  return handle;
}

std::optional<Ranges::About> Ranges::about(std::uint64_t handle) const {
  const auto entry = pieces_.find(handle);
  if (entry == pieces_.end()) return std::nullopt;
  return About{entry->second.gpu, entry->second.exportable};
}

bool Ranges::covered(std::uintptr_t address, std::size_t bytes) const {
  const std::uintptr_t end = address + bytes;
  auto entry = mappings_.find(address);
  while (entry != mappings_.end() && entry->first == address && address < end) {
    address += entry->second.bytes;
    ++entry;
  }
  return bytes != 0 && address == end;
}

}  // namespace millrace::virtual_cuda
