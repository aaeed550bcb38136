#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/device/cuda_device.hpp"

namespace millrace::test {

/// Returns a CudaDevice of GPU 0, or of MILLRACE_GPU. Without a GPU it skips the test case.
[[nodiscard]] std::unique_ptr<CudaDevice> require_gpu();

/// Blocks later work on a stream until it is opened. The destructor opens it.
class HostGate {
 public:
  HostGate(Device& device, StreamHandle stream);
  ~HostGate();
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;
  void open();

 private:
  std::promise<void> opened_;
  bool open_ = false;
};

/// A stream for the length of a test.
class TestStream {
 public:
  explicit TestStream(Device& device, const StreamOptions& options = {});
  ~TestStream();
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator StreamHandle() const noexcept { return handle_; }  // NOLINT: stands for its handle
  [[nodiscard]] cudaStream_t native() const { return static_cast<cudaStream_t>(handle_.value); }

 private:
  Device& device_;
  StreamHandle handle_;
};

/// An event for the length of a test.
class TestEvent {
 public:
  explicit TestEvent(Device& device, bool timed = false);
  ~TestEvent();
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator EventHandle() const noexcept { return handle_; }  // NOLINT: stands for its handle

 private:
  Device& device_;
  EventHandle handle_;
};

enum class Where { device, host };

/// Memory of the device, or pinned, for the length of a test.
class TestMemory {
 public:
  TestMemory(Device& device, std::size_t bytes, Where where = Where::device);
  ~TestMemory();
  TestMemory(const TestMemory&) = delete;
  TestMemory& operator=(const TestMemory&) = delete;

  [[nodiscard]] std::byte* at(std::size_t offset = 0) const { return address_ + offset; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// Pinned memory only.
  [[nodiscard]] std::span<std::byte> host() const { return {address_, bytes_}; }

 private:
  Device& device_;
  std::byte* address_;
  std::size_t bytes_;
  Where where_;
};

/// Waits for the device, then copies its memory to the host.
[[nodiscard]] std::vector<std::byte> read_back(Device& device, const std::byte* from,
                                               std::size_t bytes);

/// Returns random bytes that follow from the seed.
[[nodiscard]] std::vector<std::byte> drawn_bytes(std::size_t count, std::uint64_t seed);

/// A kernel without data that holds its stream for `time` and runs beside other kernels.
[[nodiscard]] Operation hold(Nanoseconds time);

/// Returns the code of the DeviceError that the call throws. Without one the test case fails.
[[nodiscard]] ErrorCode error_of(const std::function<void()>& call);

/// Runs one hidden test case of this program in another process. @return its exit status
[[nodiscard]] int run_alone(const std::string& tag);

}  // namespace millrace::test
