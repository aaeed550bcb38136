#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::test {

/// A machine with an adversarial schedule from this seed: the worst legal order.
[[nodiscard]] inline VirtualMachine::Options adversarial(std::uint64_t seed) {
  return {.schedule = VirtualMachine::Schedule::adversarial, .seed = seed};
}

/// Like `adversarial`; 0 is the schedule of a real machine.
[[nodiscard]] inline VirtualMachine::Options schedule_of(std::uint64_t number) {
  if (number == 0) return {};
  return adversarial(number);
}

/// The same with `host_memory` bytes of pinned memory. Tests that fill all of it need little.
[[nodiscard]] inline VirtualMachine::Options schedule_of(std::uint64_t number,
                                                         std::size_t host_memory) {
  VirtualMachine::Options options = schedule_of(number);
  options.host_memory = host_memory;
  return options;
}

}  // namespace millrace::test
