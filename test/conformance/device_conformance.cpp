#include "test/conformance/device_conformance.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <future>

#include "millrace/device/cuda_device.hpp"
#include "millrace/device/thread_executor.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

class VirtualUnderTest final : public DeviceUnderTest {
 public:
  VirtualUnderTest(const VirtualMachine::Options& machine, const VirtualDevice::Options& device)
      : machine_(machine), device_(machine_.add_device(device)) {}

  Device& device() override { return device_; }
  Executor& executor() override { return machine_.executor(); }
  std::function<void()> hold(StreamHandle stream) override {
    return [gate = device_.enqueue_gate(stream)]() mutable { gate.open(); };
  }

 private:
  VirtualMachine machine_;
  VirtualDevice& device_;
};

class CudaUnderTest final : public DeviceUnderTest {
 public:
  CudaUnderTest() : device_(CudaDevice::create(chosen_gpu())) {}

  Device& device() override { return *device_; }
  Executor& executor() override { return executor_; }
  std::function<void()> hold(StreamHandle stream) override {
    auto opened = std::make_shared<std::promise<void>>();
    device_->callback(stream, [open = opened->get_future().share()] { open.wait(); });
    return [opened] { opened->set_value(); };
  }

 private:
  static int chosen_gpu() {
    const char* const given = std::getenv("MILLRACE_GPU");
    return given == nullptr ? 0 : std::stoi(given);
  }

  ThreadExecutor executor_;
  std::unique_ptr<CudaDevice> device_;
};

DeviceFactory virtual_factory(const std::string& name, VirtualMachine::Options machine,
                              VirtualDevice::Options device) {
  device.memory_bytes = std::size_t{256} << 20;
  return {name, [machine, device] { return std::make_unique<VirtualUnderTest>(machine, device); }};
}

std::vector<DeviceFactory> make_device_factories() {
  std::vector<DeviceFactory> all;
  all.push_back(virtual_factory("virtual, timed, as an H200", {}, {}));
  all.push_back(virtual_factory("virtual, timed, nothing takes time", {}, plain_options()));
  for (std::uint64_t i = 0; i < 4; ++i) {
    VirtualMachine::Options machine;
    machine.schedule = VirtualMachine::Schedule::adversarial;
    machine.seed = seed() * 100 + i;
    all.push_back(
        virtual_factory("virtual, adversarial " + std::to_string(machine.seed), machine, {}));
  }
  if (cuda_device_count().count > 0) {
    all.push_back({"CUDA", [] { return std::make_unique<CudaUnderTest>(); }});
  }
  return all;
}

}  // namespace

const std::vector<DeviceFactory>& device_factories() {
  static const std::vector<DeviceFactory> all = make_device_factories();
  return all;
}

Cells::Cells(Device& device, std::size_t bytes)
    : device_(device),
      bytes_(bytes),
      memory_(static_cast<unsigned char*>(device.allocate(bytes))),
      mirror_(static_cast<unsigned char*>(device.allocate_host(bytes))) {
  std::memset(mirror_, 0xEE, bytes_);
}

Cells::~Cells() {
  device_.free(memory_);
  device_.free_host(mirror_);
}

void Cells::fill(unsigned char value, StreamHandle stream) {
  device_.fill(memory_, value, bytes_, stream);
}

void Cells::fetch(StreamHandle stream) {
  device_.copy(mirror_, memory_, bytes_, CopyKind::device_to_host, stream);
}

int Cells::mirrored() const {
  const bool same = std::all_of(mirror_, mirror_ + bytes_,
                                [&](unsigned char byte) { return byte == mirror_[0]; });
  return same ? mirror_[0] : -1;
}

}  // namespace millrace::test

TEST_CASE("the device suite runs on CUDA as well") {
  const auto devices = millrace::cuda_device_count();
  if (devices.count == 0) SKIP("not run on CUDA: " + devices.reason);
  CHECK(millrace::test::device_factories().back().name == "CUDA");
}
