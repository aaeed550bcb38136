#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/executor.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

/// A device as the conformance suite uses it. All checks of the suite must hold on every device.
class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  [[nodiscard]] virtual Device& device() = 0;
  [[nodiscard]] virtual Executor& executor() = 0;
  /// Blocks later work on `stream` until the returned function is called. Call it once.
  [[nodiscard]] virtual std::function<void()> hold(StreamHandle stream) = 0;
};

struct DeviceFactory {
  std::string name;
  std::function<std::unique_ptr<DeviceUnderTest>()> make;
};

/// The available devices: the virtual one under several schedules, and a GPU if the machine has
/// one.
[[nodiscard]] const std::vector<DeviceFactory>& device_factories();

/// Runs `body(DeviceUnderTest&, Device&)` on each device, every time a new one.
template <typename Body>
void over_every_device(Body body) {
  for (const DeviceFactory& factory : device_factories()) {
    DYNAMIC_SECTION(factory.name) {
      const auto under_test = factory.make();
      body(*under_test, under_test->device());
    }
  }
}

/// Device memory with a pinned mirror. Tests check its content through copies into the mirror.
class Cells {
 public:
  Cells(Device& device, std::size_t bytes);
  ~Cells();
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  [[nodiscard]] unsigned char* address() const noexcept { return memory_; }
  void fill(unsigned char value, StreamHandle stream);
  /// Enqueues a copy of the memory into the mirror.
  void fetch(StreamHandle stream);
  /// Returns the value of all bytes of the mirror, or -1 if they differ.
  [[nodiscard]] int mirrored() const;

 private:
  Device& device_;
  std::size_t bytes_;
  unsigned char* memory_;
  unsigned char* mirror_;
};

}  // namespace millrace::test
