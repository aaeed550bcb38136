#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/interop/device_memory.hpp"
#include "test/support/catch.hpp"
#include "test/support/schedules.hpp"
#include "test/support/sizes.hpp"

namespace millrace::test {

/// A GPU of 1 GiB, its memory, and a program that has nothing but plain handles.
struct DropInBench {
  explicit DropInBench(const VirtualMachine::Options& schedule = {},
                       const DeviceMemory::Options& options = {})
      : machine(schedule),
        gpu(machine.add_device({.memory_bytes = std::size_t{1} << 30})),
        memory((checking.attach(gpu), gpu), 0, options) {}

  [[nodiscard]] CUstream_st* create_stream() {
    return static_cast<CUstream_st*>(gpu.create_stream().value);
  }
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

  /// A millisecond of work on all of the memory.
  void work(void* address, std::size_t bytes, CUstream_st* stream) {
    gpu.launch({.name = "work",
                .views = {{address, bytes, Access::read_write}},
                .cost = {.fixed = std::chrono::milliseconds{1}},
                .host = {},
                .cuda = {}},
               {stream});
  }

  [[nodiscard]] std::uint64_t records() const { return gpu.calls(Call::record); }
  [[nodiscard]] std::size_t reserved() { return memory.statistics().bytes.reserved.current; }

  /// No stream touched memory too early.
  void check_order() {
    std::vector<std::string> messages;
    for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
    CHECK(messages == std::vector<std::string>{});
    memory.caching().check_invariants();
  }

  VirtualMachine machine;
  VirtualDevice& gpu;
  CheckingObserver checking;
  DeviceMemory memory;
};

}  // namespace millrace::test
