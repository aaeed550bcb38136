#include "allocator/machine/null_device.hpp"

#include <cstdlib>

namespace millrace::bench {
namespace {

// Stream handles. Smaller numbers are CUDA's own, and one bit marks blocking streams.
constexpr std::uintptr_t kFirstStream = 0x1000, kStride = 16, kBlocking = 8;
constexpr std::uintptr_t kPerThread = 2;

[[noreturn]] void refuse(const char* call, std::size_t bytes) {
  throw DeviceError{ErrorCode::out_of_memory, call + ("(" + std::to_string(bytes)) + ")",
                    "the device has no more memory"};
}

}  // namespace

StreamHandle NullDevice::per_thread_stream() { return {reinterpret_cast<void*>(kPerThread)}; }

StreamHandle NullDevice::new_stream(bool blocking) {
  const std::uintptr_t number = streams_.fetch_add(1, std::memory_order_relaxed);
  return {reinterpret_cast<void*>(kFirstStream + number * kStride + (blocking ? kBlocking : 0))};
}

void* NullDevice::do_allocate(std::size_t bytes) {
  if (void* const address = memory_.allocate(bytes)) return address;
  refuse("allocate", bytes);
}

void* NullDevice::do_allocate_host(std::size_t bytes) { return std::malloc(bytes); }
void NullDevice::do_free_host(void* address) { std::free(address); }

MemoryInfo NullDevice::do_memory_info() {
  return {NullMemory::kTotal - memory_.held(), NullMemory::kTotal};
}

void* NullDevice::do_reserve_range(std::size_t bytes) {
  if (void* const address = memory_.reserve(bytes)) return address;
  refuse("reserve_range", bytes);
}

void NullDevice::do_map(void*, std::size_t bytes) {
  if (!memory_.map(bytes)) refuse("map", bytes);
}

StreamHandle NullDevice::do_create_stream(const StreamOptions& options) {
  return new_stream(options.blocking);
}

std::uint64_t NullDevice::do_stream_id(StreamHandle stream) {
  return reinterpret_cast<std::uintptr_t>(stream.value);
}

bool NullDevice::do_blocking(StreamHandle stream) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream.value);
  return handle < kFirstStream || (handle & kBlocking) != 0;
}

void NullDevice::do_callback(StreamHandle, std::function<void()> function, std::uint64_t) {
  function();
}

}  // namespace millrace::bench
