#include "test/gpu/support.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

int chosen_gpu() {
  const char* const given = std::getenv("MILLRACE_GPU");
  return given == nullptr ? 0 : std::stoi(given);
}

}  // namespace

std::unique_ptr<CudaDevice> require_gpu() {
  const CudaDeviceCount devices = cuda_device_count();
  if (devices.count == 0) SKIP("needs a GPU: " + devices.reason);
  return CudaDevice::create(chosen_gpu());
}

HostGate::HostGate(Device& device, StreamHandle stream) {
  device.callback(stream, [opened = opened_.get_future().share()] { opened.wait(); });
}

HostGate::~HostGate() { open(); }

void HostGate::open() {
  if (!open_) opened_.set_value();
  open_ = true;
}

TestStream::TestStream(Device& device, const StreamOptions& options)
    : device_(device), handle_(device.create_stream(options)) {}
TestStream::~TestStream() { device_.destroy_stream(handle_); }

TestEvent::TestEvent(Device& device, bool timed)
    : device_(device), handle_(device.create_event(timed)) {}
TestEvent::~TestEvent() { device_.destroy_event(handle_); }

TestMemory::TestMemory(Device& device, std::size_t bytes, Where where)
    : device_(device),
      address_(static_cast<std::byte*>(where == Where::device ? device.allocate(bytes)
                                                              : device.allocate_host(bytes))),
      bytes_(bytes),
      where_(where) {}

TestMemory::~TestMemory() {
  if (where_ == Where::device) {
    device_.free(address_);
  } else {
    device_.free_host(address_);
  }
}

std::vector<std::byte> read_back(Device& device, const std::byte* from, std::size_t bytes) {
  const TestStream stream{device};
  std::vector<std::byte> read(bytes);
  device.synchronize();
  device.copy(read.data(), from, bytes, CopyKind::device_to_host, stream);
  device.synchronize(stream);
  return read;
}

std::vector<std::byte> drawn_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator{seed};
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(generator());
  return bytes;
}

Operation hold(Nanoseconds time) {
  Operation operation;
  operation.name = "hold";
  operation.cost.fixed = time;
  return operation;
}

ErrorCode error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const DeviceError& error) {
    return error.code();
  }
  FAIL("no error at all");
  return ErrorCode::unknown;
}

int run_alone(const std::string& tag) {
  const std::string program = "/proc/self/exe";
  std::string name = "test_gpu", spec = tag;
  char* arguments[] = {name.data(), spec.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0) return -1;
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace millrace::test
