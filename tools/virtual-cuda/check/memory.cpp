// The checker's record of memory: allocations of the runtime, and the program's sub-allocations.

#include <algorithm>
#include <iterator>

#include "check/checker.hpp"
#include "engine/kernels.hpp"

namespace millrace::virtual_cuda {

const std::pair<const Checker::Address, Checker::Live>* Checker::live_at(
    const void* address) const {
  const auto value = reinterpret_cast<Address>(address);
  const auto after = live_.upper_bound(value);
  if (after == live_.begin()) return nullptr;
  const auto& found = *std::prev(after);
  return value - found.first < found.second.bytes ? &found : nullptr;
}

std::string Checker::describe(const Access& access) const {
  const auto* const live = live_at(access.address);
  if (live == nullptr) return {};
  const Address offset = reinterpret_cast<Address>(access.address) - live->first;
  return "; bytes " + std::to_string(offset) + " to " +
         std::to_string(std::min(offset + access.bytes, live->second.bytes)) + " of the " +
         std::to_string(live->second.bytes) + " bytes of " + live->second.made;
}

void Checker::collect(const Access& access) {
  if (races_.races().empty()) return;
  const std::string memory = describe(access);
  for (const RaceChecker::Race& race : races_.take_races()) log_.add(race, memory);
}

// An access without a size extends to the end of the allocation. Without an allocation, one byte is
// enough to find a use after a free.
void Checker::touch(RaceChecker::OpIndex operation, const Access& access) {
  Access whole = access;
  if (whole.bytes == Access::kToTheEnd) {
    const auto* const live = live_at(access.address);
    whole.bytes =
        live == nullptr || !holds(Rule::kernels_to_the_end)
            ? 1
            : live->first + live->second.bytes - reinterpret_cast<Address>(access.address);
  }
  races_.access(operation, whole.address, whole.bytes,
                whole.writes ? RaceChecker::Access::write : RaceChecker::Access::read);
  collect(whole);
}

void Checker::host_access(const Access& access) {
  touch(races_.host_operation(host(), here("host code")), access);
}

void Checker::end_live(std::map<Address, Live>::iterator live, const std::string& call) {
  const auto* const address = reinterpret_cast<const void*>(live->first);
  races_.freed(address, host(), call);
  collect({address, live->second.bytes, true});
  live_.erase(live);
}

// The memory is gone at once, not in the order of a stream. So the free counts as a host write.
void Checker::end_completed(std::map<Address, Live>::iterator live, const std::string& call) {
  const auto* const address = reinterpret_cast<const void*>(live->first);
  touch(races_.host_operation(host(), call), {address, live->second.bytes, true});
  end_live(live, call);
}

bool Checker::end_heap(const void* address, const std::string& call) {
  const auto heap = heaps_.find(reinterpret_cast<Address>(address));
  if (heap == heaps_.end()) return false;
  const Address end = heap->first + heap->second;
  for (auto live = live_.lower_bound(heap->first); live != live_.end() && live->first < end;)
    end_live(live++, call);
  heaps_.erase(heap);
  return true;
}

// Ends the live blocks that overlap new memory. An allocation of the runtime becomes a heap. A live
// sub-allocation is an error: its memory was handed out twice.
void Checker::make_room(const void* address, std::size_t bytes, const std::string& call) {
  const auto begin = reinterpret_cast<Address>(address);
  auto live = live_.upper_bound(begin);
  if (live != live_.begin()) --live;
  while (live != live_.end() && live->first < begin + bytes) {
    const auto found = live++;
    if (found->first + found->second.bytes <= begin) continue;
    const auto above = heaps_.upper_bound(found->first);
    const bool cut = above != heaps_.begin() &&
                     found->first - std::prev(above)->first < std::prev(above)->second;
    if (cut) {
      if (holds(Rule::nothing_twice))
        log_.add("overlap", found->second.made, call,
                 call + " hands out memory that " + found->second.made +
                     " had handed out and that was not freed");
    } else {
      heaps_[found->first] = found->second.bytes;
    }
    end_live(found, call);
  }
}

// Ends blocks whose memory the runtime has reclaimed without a free: with a graph or a pool.
void Checker::end_stale(const void* address, std::size_t bytes, const std::string& call) {
  const auto begin = reinterpret_cast<Address>(address);
  auto live = live_.upper_bound(begin);
  if (live != live_.begin()) --live;
  while (live != live_.end() && live->first < begin + bytes) {
    const auto found = live++;
    if (found->first + found->second.bytes > begin) end_live(found, call);
  }
  heaps_.erase(heaps_.lower_bound(begin), heaps_.lower_bound(begin + bytes));
}

void Checker::allocated(const void* address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return;
  const std::string call = here("allocation");
  end_stale(address, bytes, call);
  races_.allocated_for_host(address, bytes, host(), call);
  live_[reinterpret_cast<Address>(address)] = {bytes, call, false};
  collect({address, bytes, true});
}

void Checker::mapped(const void* address, std::size_t bytes) {
  allocated(address, bytes);
  if (const auto live = live_.find(reinterpret_cast<Address>(address)); live != live_.end())
    live->second.mapped = true;
}

// A sub-allocation may begin at its heap's address, so heaps are searched first.
void Checker::freed(const void* address, bool on_device) {
  const std::string call = here("free");
  const auto begin = reinterpret_cast<Address>(address);
  std::size_t bytes = 0;
  if (const auto heap = heaps_.find(begin); heap != heaps_.end()) {
    bytes = heap->second;
    end_heap(address, call);
  } else if (const auto live = live_.find(begin); live != live_.end()) {
    bytes = live->second.bytes;
    end_completed(live, call);
  }
  if (!on_device && bytes != 0 && holds(Rule::memory_is_forgotten)) races_.forget(address, bytes);
}

void Checker::host_memory_ended(const void* address, std::size_t bytes) {
  end_stale(address, bytes, here("a trim"));
  races_.forget(address, bytes);
}

void Checker::range_freed(const void* address, std::size_t bytes) {
  const std::string call = here("free");
  const auto begin = reinterpret_cast<Address>(address);
  for (auto live = live_.lower_bound(begin); live != live_.end() && live->first < begin + bytes;)
    end_completed(live++, call);
  heaps_.erase(heaps_.lower_bound(begin), heaps_.lower_bound(begin + bytes));
}

void Checker::pool_allocated(const void* address, std::size_t bytes, const CUstream_st& stream) {
  if (bytes == 0) return;
  const std::string call = here("allocation");
  end_stale(address, bytes, call);
  races_.pool_allocated(address, bytes, actor(stream), host(), call);
  live_[reinterpret_cast<Address>(address)] = {bytes, call, false};
}

void Checker::pool_freed(const void* address, const CUstream_st& stream) {
  const std::string call = here("free");
  if (end_heap(address, call)) return;
  const auto live = live_.find(reinterpret_cast<Address>(address));
  if (live == live_.end()) return;
  races_.pool_freed(address, actor(stream), host(), call);
  collect({address, live->second.bytes, true});
  live_.erase(live);
}

void Checker::sub_allocated(const void* address, std::size_t bytes, const CUstream_st* stream) {
  if (address == nullptr || bytes == 0) return;
  const std::string call = here("sub-allocation");
  make_room(address, bytes, call);
  races_.allocated(address, bytes, stream == nullptr ? host() : actor(*stream), host(), call);
  live_[reinterpret_cast<Address>(address)] = {bytes, call, false};
  collect({address, bytes, true});
}

// The first user is unknown, so accesses of earlier regions are compared with this region's.
void Checker::region(const void* address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return;
  const std::string call = here("a region");
  make_room(address, bytes, call);
  races_.allocated_for_any(address, bytes, host(), call);
  live_[reinterpret_cast<Address>(address)] = {bytes, call, false};
}

void Checker::add_heap(const void* address, std::size_t bytes) {
  if (address == nullptr || bytes == 0) return;
  make_room(address, bytes, here("a heap"));
  heaps_.try_emplace(reinterpret_cast<Address>(address), bytes);
}

void Checker::reset_heap(const void* address) {
  const auto heap = heaps_.find(reinterpret_cast<Address>(address));
  if (heap == heaps_.end()) return;
  const std::string call = here("a heap's end");
  const Address end = heap->first + heap->second;
  for (auto live = live_.lower_bound(heap->first); live != live_.end() && live->first < end;)
    end_live(live++, call);
}

void Checker::sub_freed(const void* address) {
  const auto live = live_.find(reinterpret_cast<Address>(address));
  if (live != live_.end()) end_live(live, here("sub-free"));
}

std::shared_ptr<const std::vector<Access>> Checker::accesses_of_kernel(const KernelWork& work,
                                                                       void** arguments) {
  auto found = std::make_shared<std::vector<Access>>();
  if (holds(Rule::declared_accesses) && declared_accesses(work, *found)) return found;
  const std::optional<std::vector<PointerParameter>>& pointers = facts(*work.kernel).pointers;
  if (!pointers || (arguments == nullptr && !pointers->empty())) return nullptr;
  for (const PointerParameter& pointer : *pointers) {
    const void* const address = *static_cast<void**>(arguments[pointer.index]);
    if (address == nullptr) continue;
    found->push_back({address, Access::kToTheEnd, pointer.writes || !holds(Rule::const_is_read)});
  }
  return found;
}

}  // namespace millrace::virtual_cuda
