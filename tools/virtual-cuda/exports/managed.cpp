#include "exports/managed.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "graph/capture.hpp"

namespace millrace::virtual_cuda {
namespace {

using Advice = ManagedAdvice::Advice;

constexpr cudaMemLocation kNowhere{cudaMemLocationTypeInvalid, cudaInvalidDeviceId};

bool managed(const void* address, std::size_t bytes) {
  std::uintptr_t start = 0;
  const Memory::HostRange* const range = runtime().memory.host_range(address, &start);
  return range != nullptr && range->kind == Memory::Kind::managed &&
         reinterpret_cast<std::uintptr_t>(address) - start + bytes <= range->bytes;
}

// The host has one NUMA node. If the location's type needs no number, the number becomes 0.
cudaError_t check(cudaMemLocation& location) {
  switch (location.type) {
    case cudaMemLocationTypeDevice:
      return is_gpu(location.id) ? cudaSuccess : cudaErrorInvalidDevice;
    case cudaMemLocationTypeHost:
      location.id = 0;
      return cudaSuccess;
    case cudaMemLocationTypeHostNuma:
      return location.id == 0 ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemLocationTypeHostNumaCurrent:
      location = {cudaMemLocationTypeHostNuma, 0};
      return cudaSuccess;
    case cudaMemLocationTypeInvalid:
      break;
  }
  return cudaErrorInvalidValue;
}

int device_of(const cudaMemLocation& location) {
  if (location.type == cudaMemLocationTypeDevice) return location.id;
  return location.type == cudaMemLocationTypeHost ? cudaCpuDeviceId : cudaInvalidDeviceId;
}

cudaError_t change(Advice& kept, cudaMemoryAdvise advice, const cudaMemLocation& location) {
  switch (advice) {
    case cudaMemAdviseSetReadMostly:
    case cudaMemAdviseUnsetReadMostly:
      kept.read_mostly = advice == cudaMemAdviseSetReadMostly;
      return cudaSuccess;
    case cudaMemAdviseSetPreferredLocation:
      kept.preferred = location;
      return cudaSuccess;
    case cudaMemAdviseUnsetPreferredLocation:
      kept.preferred = kNowhere;
      return cudaSuccess;
    case cudaMemAdviseSetAccessedBy:
      kept.accessed_by.insert(device_of(location));
      return cudaSuccess;
    case cudaMemAdviseUnsetAccessedBy:
      kept.accessed_by.erase(device_of(location));
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

bool needs_location(cudaMemoryAdvise advice) {
  return advice == cudaMemAdviseSetPreferredLocation || advice == cudaMemAdviseSetAccessedBy ||
         advice == cudaMemAdviseUnsetAccessedBy;
}

// Accesses by a single NUMA node cannot be advised, only accesses by the host.
bool names_a_node(const cudaMemLocation& location) {
  return location.type != cudaMemLocationTypeDevice && location.type != cudaMemLocationTypeHost;
}

cudaError_t put(void* out, std::size_t room, int value) {
  if (room != sizeof value) return cudaErrorInvalidValue;
  std::memcpy(out, &value, sizeof value);
  return cudaSuccess;
}

cudaError_t put(void* out, std::size_t room, const std::set<int>& devices) {
  if (room == 0 || room % sizeof(int) != 0) return cudaErrorInvalidValue;
  std::vector<int> all(room / sizeof(int), cudaInvalidDeviceId);
  // The driver lists GPUs first. The host has the smallest number, so it moves to the end.
  std::vector<int> listed(devices.lower_bound(0), devices.end());
  listed.insert(listed.end(), devices.begin(), devices.lower_bound(0));
  std::copy_n(listed.begin(), std::min(all.size(), listed.size()), all.begin());
  std::memcpy(out, all.data(), room);
  return cudaSuccess;
}

cudaError_t put(void* out, std::size_t room, cudaMemRangeAttribute which, const Advice& all) {
  switch (which) {
    case cudaMemRangeAttributeReadMostly:
      return put(out, room, all.read_mostly ? 1 : 0);
    case cudaMemRangeAttributePreferredLocation:
      return put(out, room, device_of(all.preferred));
    case cudaMemRangeAttributeAccessedBy:
      return put(out, room, all.accessed_by);
    case cudaMemRangeAttributeLastPrefetchLocation:
      return put(out, room, device_of(all.prefetched));
    case cudaMemRangeAttributePreferredLocationType:
      return put(out, room, static_cast<int>(all.preferred.type));
    case cudaMemRangeAttributePreferredLocationId:
      return put(out, room, all.preferred.id);
    case cudaMemRangeAttributeLastPrefetchLocationType:
      return put(out, room, static_cast<int>(all.prefetched.type));
    case cudaMemRangeAttributeLastPrefetchLocationId:
      return put(out, room, all.prefetched.id);
  }
  return cudaErrorInvalidValue;
}

cudaError_t get_all(void** out, const std::size_t* rooms, const cudaMemRangeAttribute* which,
                    std::size_t count, const void* address, std::size_t bytes) {
  if (out == nullptr || rooms == nullptr || which == nullptr || count == 0 || bytes == 0)
    return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (!managed(address, bytes)) return cudaErrorInvalidValue;
  const Advice all = runtime().memory.advice().common(address, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    if (out[i] == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = put(out[i], rooms[i], which[i], all); error != cudaSuccess)
      return error;
  }
  return cudaSuccess;
}

bool all_managed(void* const* addresses, const std::size_t* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[i] == 0 || !managed(addresses[i], bytes[i])) return false;
  return true;
}

bool well_formed(const PrefetchBatch& batch) {
  if (batch.count == 0 || batch.addresses == nullptr || batch.bytes == nullptr) return false;
  if (batch.locations == nullptr || batch.firsts == nullptr || batch.location_count == 0 ||
      batch.location_count > batch.count || batch.firsts[0] != 0)
    return false;
  for (std::size_t i = 1; i < batch.location_count; ++i)
    if (batch.firsts[i] <= batch.firsts[i - 1] || batch.firsts[i] >= batch.count) return false;
  return true;
}

// Prefetches and discards only take their turn in the stream: managed memory is host memory.
cudaError_t take_turn(Lock& lock, CUstream_st& stream) { return submit(lock, stream, EmptyWork{}); }

}  // namespace

cudaError_t advise(const void* address, std::size_t bytes, cudaMemoryAdvise advice,
                   cudaMemLocation location) {
  if (bytes == 0) return cudaErrorInvalidValue;
  if (needs_location(advice)) {
    if (const cudaError_t error = check(location); error != cudaSuccess) return error;
    if (advice != cudaMemAdviseSetPreferredLocation && names_a_node(location))
      return cudaErrorInvalidValue;
  }
  const Lock lock = lock_engine();
  if (!managed(address, bytes)) return cudaErrorInvalidValue;
  Advice probe;
  if (const cudaError_t error = change(probe, advice, location); error != cudaSuccess) return error;
  runtime().memory.advice().change(
      address, bytes, [&](Advice& kept) { static_cast<void>(change(kept, advice, location)); });
  return cudaSuccess;
}

cudaError_t prefetch(CUstream_st* stream, const void* address, std::size_t bytes,
                     cudaMemLocation location, unsigned flags) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags != 0 || bytes == 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = check(location); error != cudaSuccess) return error;
  Lock lock = lock_engine();
  spend(lock, Call::copy);
  if (!managed(address, bytes)) return cudaErrorInvalidValue;
  const cudaError_t error = take_turn(lock, *stream);
  if (error == cudaSuccess)
    runtime().memory.advice().change(address, bytes,
                                     [&](Advice& kept) { kept.prefetched = location; });
  return error;
}

cudaError_t prefetch_batch(CUstream_st* stream, const PrefetchBatch& batch,
                           unsigned long long flags) {
  if (stream == nullptr || stream->role == CUstream_st::Role::legacy)
    return cudaErrorInvalidResourceHandle;
  if (flags != 0 || !well_formed(batch)) return cudaErrorInvalidValue;
  std::vector<cudaMemLocation> locations(batch.locations, batch.locations + batch.location_count);
  for (cudaMemLocation& location : locations)
    if (const cudaError_t error = check(location); error != cudaSuccess) return error;
  Lock lock = lock_engine();
  spend(lock, Call::copy);
  if (!all_managed(batch.addresses, batch.bytes, batch.count)) return cudaErrorInvalidValue;
  if (const cudaError_t error = take_turn(lock, *stream); error != cudaSuccess) return error;
  for (std::size_t i = 0; i < batch.count; ++i) {
    const auto* const next = std::upper_bound(batch.firsts, batch.firsts + batch.location_count, i);
    const cudaMemLocation location = locations[static_cast<std::size_t>(next - batch.firsts) - 1];
    runtime().memory.advice().change(batch.addresses[i], batch.bytes[i],
                                     [&](Advice& kept) { kept.prefetched = location; });
  }
  return cudaSuccess;
}

cudaError_t discard_batch(CUstream_st* stream, void* const* addresses, const std::size_t* bytes,
                          std::size_t count, unsigned long long flags) {
  if (stream == nullptr || stream->role == CUstream_st::Role::legacy)
    return cudaErrorInvalidResourceHandle;
  if (flags != 0 || count == 0 || addresses == nullptr || bytes == nullptr)
    return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::copy);
  if (!all_managed(addresses, bytes, count)) return cudaErrorInvalidValue;
  return take_turn(lock, *stream);
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

MILLRACE_CALL(cudaMemRangeGetAttribute,
              (void* out, std::size_t room, cudaMemRangeAttribute which, const void* address,
               std::size_t bytes),
              return get_all(&out, &room, &which, 1, address, bytes);)
MILLRACE_CALL(cudaMemRangeGetAttributes,
              (void** out, std::size_t* rooms, cudaMemRangeAttribute* which, std::size_t count,
               const void* address, std::size_t bytes),
              return get_all(out, rooms, which, count, address, bytes);)
