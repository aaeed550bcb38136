#pragma once

#include <cstddef>

#include "millrace/interop/device_memory.hpp"
#include "test/interop/plain_bench.hpp"
#include "test/support/schedules.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {

/// A GPU of 1 GiB, its DeviceMemory, and a program that uses only plain stream handles.
struct DropInBench : PlainBench {
  explicit DropInBench(const VirtualMachine::Options& schedule = {},
                       const DeviceMemory::Options& options = {})
      : PlainBench(schedule), memory(gpu, 0, options) {}

  void destroy(CUstream_st* stream) { gpu.destroy_stream({stream}); }

  [[nodiscard]] void* allocate(std::size_t bytes, CUstream_st* stream) {
    void* const address = memory.allocate(bytes, stream);
    checking.allocated(address, bytes, gpu, {stream});
    return address;
  }
  template <typename... Stream>
  void free(void* address, Stream... stream) {
    checking.freed(address);
    memory.deallocate(address, stream...);
  }

  [[nodiscard]] std::uint64_t records() const { return gpu.calls(Call::record); }
  [[nodiscard]] std::size_t reserved() { return memory.statistics().bytes.reserved.current; }

  /// Checks that no stream accessed memory too early.
  void check_order() {
    PlainBench::check_order();
    memory.caching().check_invariants();
  }

  DeviceMemory memory;
};

}  // namespace millrace::test
