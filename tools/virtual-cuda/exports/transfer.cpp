#include "exports/transfer.hpp"

#include <algorithm>
#include <cstring>

#include "check/checker.hpp"
#include "engine/kernels.hpp"

namespace millrace::virtual_cuda {
namespace {

using Kind = Memory::Kind;

bool host_only(Kind kind) { return kind == Kind::pageable; }

/** Whether a copy of this kind is allowed between these kinds of memory. */
bool allowed(cudaMemcpyKind kind, Kind to, Kind from) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return to != Kind::device && from != Kind::device;
    case cudaMemcpyHostToDevice:
      return !host_only(to) && from != Kind::device;
    case cudaMemcpyDeviceToHost:
      return to != Kind::device && !host_only(from);
    case cudaMemcpyDeviceToDevice:
      return !host_only(to) && !host_only(from);
    default:
      return true;
  }
}

// Copies the source now, because the program may change it after the call.
void stage(CopyWork& work) {
  std::shared_ptr<std::byte[]> bytes(new std::byte[work.bytes()]);
  CopyWork reading = work;
  reading.to = {bytes.get(), work.width, work.width * work.height};
  perform(reading);
  work.from = reading.to;
  work.staged = std::move(bytes);
}

// Waits on the host for the stream's last operation.
void wait_for(Lock& lock, const CUstream_st& stream, const OperationRef& last) {
  runtime().engine.wait(lock, last);
  if (Checker* const check = checker()) check->synchronized(stream);
}

bool mapped(const Plane& plane) { return runtime().memory.in_range(plane.base); }

bool lacks_access(const Access& access) {
  return runtime().memory.in_range(access.address) &&
         !runtime().ranges.accessible(reinterpret_cast<std::uintptr_t>(access.address),
                                      access.bytes);
}

// Whether some mapped byte is without access for any GPU. Other kinds of memory need no access.
template <typename Work>
bool some_lacks_access(const Work& work) {
  const std::vector<Access> all = accesses_of(work);
  return std::any_of(all.begin(), all.end(), [](const Access& one) { return lacks_access(one); });
}
bool lacks_access(const CopyWork& work) {
  return (mapped(work.to) || mapped(work.from)) && some_lacks_access(work);
}
bool lacks_access(const FillWork& work) { return mapped(work.to) && some_lacks_access(work); }

bool empty(const CopyWork& work) { return work.bytes() == 0; }

}  // namespace

Plane plane(const void* address, std::size_t pitch, std::size_t layer_rows) {
  return {const_cast<std::byte*>(static_cast<const std::byte*>(address)), pitch,
          pitch * layer_rows};
}

cudaError_t set_direction(CopyWork& work) {
  const Memory& memory = runtime().memory;
  const Kind to = memory.kind_of(work.to.base);
  const Kind from = memory.kind_of(work.from.base);
  if (!allowed(work.kind, to, from)) return cudaErrorInvalidValue;
  // A copy to managed memory counts as a copy to the device, unless its source is a device.
  const bool to_device = to == Kind::device || (to == Kind::managed && from != Kind::device);
  const bool from_device = from == Kind::device;
  if (to_device && from_device) {
    const bool same = memory.gpu_of(work.to.base) == memory.gpu_of(work.from.base);
    work.direction = same ? Direction::on_device : Direction::peer;
  } else if (to_device) {
    work.direction = Direction::host_to_device;
  } else {
    work.direction = from_device ? Direction::device_to_host : Direction::host_to_host;
  }
  return cudaSuccess;
}

cudaError_t copy(CUstream_st* stream, CopyWork work, Host host) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (work.kind < cudaMemcpyHostToHost || work.kind > cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  if (empty(work)) return cudaSuccess;
  if (work.to.base == nullptr || work.from.base == nullptr) return cudaErrorInvalidValue;
  if (quick() && plainly_allowed(work.kind, work.to.base, work.from.base)) {
    perform(work);
    return cudaSuccess;
  }
  Lock lock = lock_engine();
  spend(lock, Call::copy);
  if (const cudaError_t error = set_direction(work); error != cudaSuccess) return error;
  if (stream->capture != nullptr)
    return host == Host::waits ? check_wait(*stream) : submit(lock, *stream, std::move(work));
  if (lacks_access(work)) return cudaErrorInvalidValue;
  const Memory& memory = runtime().memory;
  const Kind to = memory.kind_of(work.to.base);
  const Kind from = memory.kind_of(work.from.base);
  const bool to_host = to != Kind::device;
  bool wait = to == Kind::pageable || (to_host && from == Kind::pageable);
  if (from == Kind::pageable && !to_host) {
    // As with CUDA, the call returns when the source is in staging memory.
    Checker* const check = checker();
    if (host == Host::waits) {
      runtime().engine.wait(lock, OperationRef{stream->tail});
      if (check != nullptr) check->synchronized(*stream);
    }
    if (check != nullptr)
      for (const Access& access : accesses_of(work))
        if (!access.writes) check->host_access(access);
    stage(work);
  } else if (host == Host::waits) {
    wait = wait || to_host || from != Kind::device;
  }
  OperationRef made;
  const cudaError_t error = submit(lock, *stream, std::move(work), {}, &made);
  if (error == cudaSuccess && wait) wait_for(lock, *stream, made);
  return error;
}

cudaError_t fill(CUstream_st* stream, FillWork work, Host host) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (work.bytes() == 0) return cudaSuccess;
  if (work.to.base == nullptr) return cudaErrorInvalidValue;
  if (quick() && runtime().memory.in_gpu(work.to.base)) {
    perform(work);
    return cudaSuccess;
  }
  Lock lock = lock_engine();
  spend(lock, Call::fill);
  const Kind to = runtime().memory.kind_of(work.to.base);
  if (to == Kind::pageable) return cudaErrorInvalidValue;
  const bool wait = host == Host::waits && to != Kind::device;
  if (wait && stream->capture != nullptr) return check_wait(*stream);
  if (stream->capture == nullptr && lacks_access(work)) return cudaErrorInvalidValue;
  OperationRef made;
  const cudaError_t error = submit(lock, *stream, work, {}, &made);
  if (error == cudaSuccess && wait) wait_for(lock, *stream, made);
  return error;
}

cudaError_t copy_batch(CUstream_st* stream, void* const* to, const void* const* from,
                       const std::size_t* bytes, std::size_t count, std::size_t* failed) {
  if (stream == nullptr || stream->role == CUstream_st::Role::legacy)
    return cudaErrorInvalidResourceHandle;
  if (count == 0 || to == nullptr || from == nullptr || bytes == nullptr)
    return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    const CopyWork work{plane(to[i]),         plane(from[i]),    bytes[i], 1, 1,
                        Direction::on_device, cudaMemcpyDefault, {}};
    const cudaError_t error = copy(stream, work, Host::goes_on);
    if (error == cudaSuccess) continue;
    if (failed != nullptr) *failed = i;
    return error;
  }
  return cudaSuccess;
}

cudaError_t symbol_address(const void* symbol, std::size_t offset, std::size_t bytes,
                           void** address) {
  Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return cudaErrorInvalidSymbol;
  if (offset > variable->bytes || bytes > variable->bytes - offset) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  Gpu& gpu = runtime().current_gpu();
  // A managed variable has one address for all GPUs.
  void*& start = variable->addresses[variable->managed ? 0 : gpu.ordinal];
  if (start == nullptr) {
    start = variable->managed
                ? runtime().memory.take_host(
                      variable->bytes, {variable->bytes, Kind::managed, cudaMemAttachGlobal, 0})
                : runtime().memory.take(gpu.ordinal, variable->bytes);
    if (start == nullptr) return cudaErrorMemoryAllocation;
    std::memset(runtime().memory.data(start), 0, variable->bytes);
    if (Checker* const check = checker()) check->allocated(start, variable->bytes);
    if (variable->managed) *variable->managed_pointer = start;
  }
  *address = static_cast<std::byte*>(start) + offset;
  return cudaSuccess;
}

}  // namespace millrace::virtual_cuda
