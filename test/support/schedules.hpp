#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::test {

/// A machine whose schedule is drawn from this seed: the worst that is legal.
[[nodiscard]] inline VirtualMachine::Options adversarial(std::uint64_t seed) {
  return {.schedule = VirtualMachine::Schedule::adversarial, .seed = seed};
}

/// The same; 0 is the schedule of a real machine.
[[nodiscard]] inline VirtualMachine::Options schedule_of(std::uint64_t number) {
  if (number == 0) return {};
  return adversarial(number);
}

/// With so much pinned memory, which tests that fill it all need little of.
[[nodiscard]] inline VirtualMachine::Options schedule_of(std::uint64_t number,
                                                         std::size_t host_memory) {
  VirtualMachine::Options options = schedule_of(number);
  options.host_memory = host_memory;
  return options;
}

}  // namespace millrace::test
