// The hooks of PyTorch's CUDAPluggableAllocator.

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include "interop/default_memory.hpp"
#include "interop/guarded.hpp"
#include "interop/torch/torch_registry.hpp"
#include "millrace.h"
#include "millrace/interop/torch_hooks.hpp"
#include "millrace/interop/torch_memory.hpp"

using millrace::guarded;
using millrace::TorchMemory;
using millrace::TorchPoolId;

namespace {

using CurrentStream = CUstream_st* (*)(int);
std::atomic<CurrentStream> current_stream{nullptr};

}  // namespace

void millrace_torch_set_current_stream(CUstream_st* (*current)(int device)) {
  current_stream = current;
}

void millrace_torch_init(int count) {
  guarded([&] {
    for (int device = 0; device < count; ++device) static_cast<void>(TorchMemory::of(device));
  });
}

void* millrace_torch_malloc(ssize_t size, int device, CUstream_st* stream) {
  void* address = nullptr;
  guarded([&] {
    if (size < 0) {
      throw std::invalid_argument{"millrace_torch_malloc: a size of " + std::to_string(size) +
                                  " bytes"};
    }
    address =
        TorchMemory::of(device).allocate(static_cast<std::size_t>(size), {stream, true}, nullptr);
  });
  return address;
}

void millrace_torch_free(void* address, ssize_t, int device, CUstream_st*) {
  if (address == nullptr || millrace::torch::registry_is_of_parent()) return;
  guarded([&] { TorchMemory::of(device).deallocate(address, nullptr); });
}

void* millrace_torch_base_alloc(void* address, size_t* size) {
  void* base = nullptr;
  guarded([&] {
    TorchMemory* const memory = TorchMemory::holding(address);
    if (memory == nullptr) throw std::invalid_argument{"not a live allocation of any GPU's memory"};
    const auto [begin, bytes] = memory->segment_of(address);
    base = begin;
    if (size != nullptr) *size = bytes;
  });
  return base;
}

void millrace_torch_record_stream(void* address, CUstream_st* stream) {
  if (address == nullptr) return;
  guarded([&] {
    if (TorchMemory* const memory = TorchMemory::holding(address)) {
      return memory->record_use(address, stream);
    }
    for (millrace::DeviceMemory* const memory : millrace::default_memories()) {
      if (memory->is_live(address)) return memory->record_use(address, stream);
    }
    throw std::invalid_argument{
        "millrace_torch_record_stream: not a live allocation of any GPU's memory"};
  });
}

void millrace_torch_reset(void) {
  guarded([] {
    for (TorchMemory* const memory : TorchMemory::all()) memory->trim();
    for (millrace::DeviceMemory* const memory : millrace::default_memories()) memory->trim();
  });
}

void millrace_torch_memory_fraction(double fraction, int device) {
  guarded([&] {
    if (!(fraction > 0 && fraction <= 1)) {
      throw std::invalid_argument{"millrace_torch_memory_fraction: not above 0 and up to 1"};
    }
    if (TorchMemory* const memory = millrace::torch::registry().find(device)) {
      return memory->set_fraction(fraction);
    }
    millrace::DeviceMemory& memory = millrace::default_memory(device);
    const auto total = static_cast<double>(memory.device().device().memory_info().total);
    memory.caching().set_limit(fraction < 1 ? static_cast<std::size_t>(fraction * total) : 0);
  });
}

void millrace_torch_begin_allocate_to_pool(int device, TorchPoolId pool,
                                           std::function<bool(CUstream_st*)> filter) {
  guarded([&] {
    const CurrentStream current = current_stream;
    CUstream_st* const origin = current == nullptr ? nullptr : current(device);
    TorchMemory::of(device).begin_route(pool, origin, std::move(filter));
  });
}

void millrace_torch_end_allocate_to_pool(int device, TorchPoolId pool) {
  guarded([&] { TorchMemory::of(device).end_route(pool); });
}

void millrace_torch_release_pool(int device, TorchPoolId pool) {
  guarded([&] { TorchMemory::of(device).release_pool(pool); });
}
