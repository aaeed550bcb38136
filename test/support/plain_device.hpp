#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::test {

/// A profile for calculations by hand: 1 byte/ns everywhere, 1 flop/ns, and 2 MiB granularity.
/// Calls, latencies and minimums take no time.
[[nodiscard]] DeviceProfile plain_profile();

/// A device with the plain profile and `memory_bytes` bytes of memory.
[[nodiscard]] VirtualDevice::Options plain_options(std::size_t memory_bytes = std::size_t{1} << 30);

/// A kernel that takes `time` alone and uses no resource that another kernel could need.
[[nodiscard]] Operation fixed_kernel(std::string name, Nanoseconds time);
/// A kernel that takes `time` alone and then uses all of the machine's arithmetic.
[[nodiscard]] Operation busy_kernel(std::string name, Nanoseconds time);

/// Keeps the operations that ran, by name. It is attached while it lives.
class Timeline final : public TimelineObserver {
 public:
  struct Entry {
    std::string name;
    std::string stream;
    Engine engine;
    Nanoseconds begin;
    Nanoseconds end;
    std::uint64_t index;
    unsigned device;
  };

  explicit Timeline(VirtualMachine& machine);
  ~Timeline() override;

  void executed(const ExecutedOperation& operation) override;

  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Returns the first operation with this name. @throws std::out_of_range if none ran
  [[nodiscard]] const Entry& at(const std::string& name) const;
  /// Returns the names in the order in which operations ended, without records and waits.
  [[nodiscard]] std::vector<std::string> order() const;

 private:
  VirtualMachine& machine_;
  std::vector<Entry> entries_;
};

}  // namespace millrace::test
