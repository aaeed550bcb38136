#include "memory/pool.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "check/checker.hpp"
#include "engine/engine.hpp"
#include "engine/stream.hpp"
#include "millrace/round_up.hpp"

using millrace::round_up;
using millrace::virtual_cuda::Checker;
using millrace::virtual_cuda::checker;
using millrace::virtual_cuda::Engine;
using millrace::virtual_cuda::Memory;
using millrace::virtual_cuda::OperationRef;

namespace {

using Pool = CUmemPoolHandle_st;

bool done(const Pool::Free& block) {
  return std::all_of(block.after.begin(), block.after.end(),
                     [](const OperationRef& free) { return free->done(); });
}

bool usable(const Pool::Free& block, const Pool::Attributes& attributes, Engine& engine,
            const CUstream_st& stream) {
  if (block.after.empty() || block.stream_id == stream.id) return true;
  if (attributes.allow_opportunistic != 0 && done(block)) return true;
  return attributes.follow_event_dependencies != 0 &&
         std::all_of(block.after.begin(), block.after.end(), [&](const OperationRef& free) {
           return !free->done() && engine.ordered(stream.tail, free);
         });
}

}  // namespace

Memory::Kind CUmemPoolHandle_st::kind() const noexcept {
  if (place.on_gpu()) return Memory::Kind::device;
  return place.type == cudaMemAllocationTypeManaged ? Memory::Kind::managed : Memory::Kind::pinned;
}

std::map<std::uintptr_t, Pool::Live>::const_iterator CUmemPoolHandle_st::in_use(
    std::uintptr_t address) const {
  auto block = live.upper_bound(address);
  if (block == live.begin()) return live.end();
  --block;
  return address - block->first < block->second.bytes ? block : live.end();
}

bool CUmemPoolHandle_st::holds_free(std::uintptr_t address) const {
  auto block = free_blocks.upper_bound(address);
  if (block == free_blocks.begin()) return false;
  --block;
  return address - block->first < block->second.bytes;
}

Pool::Grant CUmemPoolHandle_st::allocate(Memory& memory, Engine& engine, std::size_t bytes,
                                         CUstream_st& stream) {
  bytes = round_up(bytes, Memory::kAlignment);
  const auto best = [&](auto allowed) {
    for (auto entry = by_size.lower_bound({bytes, 0}); entry != by_size.end(); ++entry)
      if (const auto block = free_blocks.find(entry->second); allowed(block->second)) return block;
    return free_blocks.end();
  };
  const auto without_wait = [&](const Free& block) {
    return usable(block, attributes, engine, stream);
  };
  auto block = best(without_wait);
  if (block == free_blocks.end() && grow(memory, bytes)) block = best(without_wait);
  if (block == free_blocks.end() && attributes.allow_internal_dependencies != 0)
    block = best([](const Free&) { return true; });
  if (block == free_blocks.end()) return {};
  return carve(block, bytes, stream);
}

Pool::Grant CUmemPoolHandle_st::carve(std::map<std::uintptr_t, Free>::iterator block,
                                      std::size_t bytes, CUstream_st& stream) {
  const std::uintptr_t address = block->first;
  Free taken = block->second;
  remove(block);
  if (taken.bytes > bytes) {
    Free rest = taken;
    rest.bytes -= bytes;
    add(address + bytes, std::move(rest));
  }
  live[address] = {bytes, &stream};
  attributes.used += bytes;
  attributes.used_high = std::max(attributes.used_high, attributes.used);
  // The stream's own order covers frees on the same stream.
  if (taken.stream_id == stream.id) taken.after.clear();
  return {reinterpret_cast<void*>(address), std::move(taken.after)};
}

void* CUmemPoolHandle_st::take_segment(Memory& memory, std::size_t bytes) {
  if (place.on_gpu()) return memory.take(device, bytes);
  return memory.take_host(bytes,
                          {bytes, kind(), cudaMemAttachGlobal, static_cast<int>(device), this});
}

bool CUmemPoolHandle_st::grow(Memory& memory, std::size_t bytes) {
  for (const std::size_t size : {round_up(bytes, granularity), bytes}) {
    if (max_bytes != 0 && attributes.reserved + size > max_bytes) continue;
    void* const segment = take_segment(memory, size);
    if (segment == nullptr) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(segment);
    segments[address] = size;
    add(address, {size, 0, {}});
    attributes.reserved += size;
    attributes.reserved_high = std::max(attributes.reserved_high, attributes.reserved);
    return true;
  }
  return false;
}

void CUmemPoolHandle_st::release(std::uintptr_t address, CUstream_st& stream,
                                 const OperationRef& free) {
  const auto entry = live.find(address);
  const std::size_t bytes = entry->second.bytes;
  live.erase(entry);
  attributes.used -= bytes;
  Free block{bytes, stream.id, {}};
  if (free && !free->done()) block.after.push_back(free);
  merge(add(address, std::move(block)));
}

std::map<std::uintptr_t, Pool::Free>::iterator CUmemPoolHandle_st::add(std::uintptr_t address,
                                                                       Free block) {
  by_size.emplace(block.bytes, address);
  return free_blocks.emplace(address, std::move(block)).first;
}

void CUmemPoolHandle_st::remove(std::map<std::uintptr_t, Free>::iterator block) {
  by_size.erase({block->second.bytes, block->first});
  free_blocks.erase(block);
}

// Merges only if the merged block is usable whenever its parts are.
void CUmemPoolHandle_st::merge(std::map<std::uintptr_t, Free>::iterator block) {
  const auto joins = [&](auto first, auto second) {
    if (first->first + first->second.bytes != second->first || segments.contains(second->first))
      return false;
    const Free& a = first->second;
    const Free& b = second->second;
    return (done(a) && done(b)) || (a.stream_id != 0 && a.stream_id == b.stream_id);
  };
  const auto join = [&](auto first, auto second) {
    const std::uintptr_t address = first->first;
    Free both = first->second;
    const Free other = second->second;
    remove(second);
    remove(first);
    both.bytes += other.bytes;
    if (both.stream_id != other.stream_id) both.stream_id = 0;
    both.after.insert(both.after.end(), other.after.begin(), other.after.end());
    std::erase_if(both.after, [](const OperationRef& free) { return free->done(); });
    return add(address, std::move(both));
  };
  if (const auto next = std::next(block); next != free_blocks.end() && joins(block, next))
    block = join(block, next);
  if (block == free_blocks.begin()) return;
  if (const auto previous = std::prev(block); joins(previous, block)) join(previous, block);
}

void CUmemPoolHandle_st::trim(Memory& memory, std::size_t keep) {
  // Neighbors that could not be merged at their frees may be done by now.
  std::vector<std::uintptr_t> addresses;
  for (const auto& entry : free_blocks) addresses.push_back(entry.first);
  for (const std::uintptr_t address : addresses)
    if (const auto block = free_blocks.find(address); block != free_blocks.end()) merge(block);
  for (auto segment = segments.begin(); segment != segments.end();) {
    const auto block = free_blocks.find(segment->first);
    const bool whole =
        block != free_blocks.end() && block->second.bytes == segment->second && done(block->second);
    // CUDA guarantees that at least `keep` bytes stay.
    if (!whole || attributes.reserved - segment->second < keep) {
      ++segment;
      continue;
    }
    attributes.reserved -= segment->second;
    auto* const start = reinterpret_cast<void*>(segment->first);
    if (place.on_gpu()) {
      memory.give(start);
    } else {
      // The C library may reuse the memory for other purposes.
      if (Checker* const check = checker()) check->host_memory_ended(start, segment->second);
      memory.give_host(start, kind(), this);
    }
    remove(block);
    segment = segments.erase(segment);
  }
}
