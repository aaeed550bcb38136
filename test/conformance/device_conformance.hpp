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

/// A device as the conformance suite uses it. What the suite asks for holds on every device.
class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  [[nodiscard]] virtual Device& device() = 0;
  [[nodiscard]] virtual Executor& executor() = 0;
  /// Holds back what is enqueued on `stream` from now on until the result is called, once.
  [[nodiscard]] virtual std::function<void()> hold(StreamHandle stream) = 0;
};

struct DeviceFactory {
  std::string name;
  std::function<std::unique_ptr<DeviceUnderTest>()> make;
};

/// The devices that are there: the virtual one under several schedules, and a GPU if one is at
/// hand.
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

/// Device memory with a pinned mirror: what is in it is checked through copies.
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
  /// What all bytes of the mirror are; -1 if they differ.
  [[nodiscard]] int mirrored() const;

 private:
  Device& device_;
  std::size_t bytes_;
  unsigned char* memory_;
  unsigned char* mirror_;
};

}  // namespace millrace::test
