#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

/// A virtual GPU of 1 GiB whose accesses are checked, for a program with plain streams.
struct PlainBench {
  explicit PlainBench(const VirtualMachine::Options& schedule)
      : machine(schedule), gpu(machine.add_device({.memory_bytes = std::size_t{1} << 30})) {
    checking.attach(gpu);
  }

  [[nodiscard]] CUstream_st* create_stream() {
    return static_cast<CUstream_st*>(gpu.create_stream().value);
  }

  /// Launches a millisecond of work that reads and writes all of the memory.
  void work(void* address, std::size_t bytes, CUstream_st* stream) {
    gpu.launch({.name = "work",
                .views = {{address, bytes, Access::read_write}},
                .cost = {.fixed = std::chrono::milliseconds{1}},
                .host = {},
                .cuda = {}},
               {stream});
  }

  /// Makes `after` wait for all work on `before`. Millrace does not see this.
  void order(CUstream_st* before, CUstream_st* after) {
    const EventHandle event = gpu.create_event();
    gpu.record(event, {before});
    gpu.wait({after}, event);
    gpu.destroy_event(event);
  }

  /// Checks that no stream accessed memory too early.
  void check_order() {
    std::vector<std::string> messages;
    for (const RaceChecker::Race& race : checking.races()) messages.push_back(race.message);
    CHECK(messages == std::vector<std::string>{});
  }

  VirtualMachine machine;
  VirtualDevice& gpu;
  CheckingObserver checking;
};

}  // namespace millrace::test
