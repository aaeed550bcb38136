// PyTorch's own caching allocator with a C interface. It is not part of the CMake build: peer.py
// compiles it for the PyTorch of the machine.

#include "shim.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <exception>
#include <string>
#include <unordered_map>

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

int chosen_device = 0;
thread_local std::string last_error;

c10::cuda::CUDAStream stream_of(void* stream) {
  if (stream == nullptr) return c10::cuda::getDefaultCUDAStream(chosen_device);
  return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), chosen_device);
}

// record_stream needs the owner of memory, not its address. A plain map is enough, because one
// thread drives a footprint loop.
std::unordered_map<void*, c10::DataPtr>& owners() {
  static auto* const owners = new std::unordered_map<void*, c10::DataPtr>;
  return *owners;
}

void* allocate(size_t bytes, void* stream) {
  try {
    const c10::cuda::CUDAStreamGuard guard{stream_of(stream)};
    c10::DataPtr memory = caching::get()->allocate(bytes);
    void* const address = memory.get();
    owners().emplace(address, std::move(memory));
    return address;
  } catch (const std::exception& error) {
    last_error = error.what();
    return nullptr;
  }
}

void record_stream(void* memory, void* stream) {
  caching::recordStream(owners().at(memory), stream_of(stream));
}

void release(void* memory) { owners().erase(memory); }

void* raw_allocate(size_t bytes, void* stream) {
  return caching::raw_alloc_with_stream(bytes, static_cast<cudaStream_t>(stream));
}

void raw_free(void* memory) { caching::raw_delete(memory); }

void statistics(MillraceTorchStatistics* result) {
  const auto stats = caching::getDeviceStats(static_cast<c10::DeviceIndex>(chosen_device));
  const auto& requested = stats.requested_bytes[0];
  const auto& allocated = stats.allocated_bytes[0];
  const auto& active = stats.active_bytes[0];
  const auto& reserved = stats.reserved_bytes[0];
  *result = {static_cast<size_t>(requested.current),       static_cast<size_t>(requested.peak),
             static_cast<size_t>(allocated.current),       static_cast<size_t>(allocated.peak),
             static_cast<size_t>(active.current),          static_cast<size_t>(active.peak),
             static_cast<size_t>(reserved.current),        static_cast<size_t>(reserved.peak),
             static_cast<size_t>(stats.segment[0].current)};
}

void reset_peaks() { caching::resetPeakStats(static_cast<c10::DeviceIndex>(chosen_device)); }

void empty_cache() { caching::emptyCache(); }

const char* error() { return last_error.c_str(); }

}  // namespace

extern "C" const MillraceTorch* millrace_torch(int device) {
  static const MillraceTorch table{MILLRACE_TORCH_VERSION,
                                   allocate,
                                   record_stream,
                                   release,
                                   raw_allocate,
                                   raw_free,
                                   statistics,
                                   reset_peaks,
                                   empty_cache,
                                   error};
  try {
    chosen_device = device;
    caching::init(c10::cuda::device_count());
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    return &table;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "PyTorch's allocator: %s\n", problem.what());
    return nullptr;
  }
}
