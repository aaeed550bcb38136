#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace millrace::test {

/// A profile to work out by hand: 1 byte/ns everywhere, 1 flop/ns, 2 MiB granularity, and no call,
/// latency or minimum takes any time.
[[nodiscard]] DeviceProfile plain_profile();

/// A device with the plain profile and this much memory.
[[nodiscard]] VirtualDevice::Options plain_options(std::size_t memory_bytes = std::size_t{1} << 30);

/// A kernel that takes `time` alone and asks for nothing that another could want.
[[nodiscard]] Operation fixed_kernel(std::string name, Nanoseconds time);
/// A kernel that takes `time` alone and then uses all of the machine's arithmetic.
[[nodiscard]] Operation busy_kernel(std::string name, Nanoseconds time);

/// Keeps what ran, by name. Attached for as long as it lives.
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
  /// The first that ran under this name. @throws std::out_of_range if none did
  [[nodiscard]] const Entry& at(const std::string& name) const;
  /// Names in the order in which they ended, less records and waits.
  [[nodiscard]] std::vector<std::string> order() const;

 private:
  VirtualMachine& machine_;
  std::vector<Entry> entries_;
};

}  // namespace millrace::test
