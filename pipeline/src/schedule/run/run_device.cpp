#include "millrace/pipeline/schedule/run_device.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "millrace/device/cuda_device.hpp"
#include "millrace/device/profile.hpp"
#include "millrace/device/thread_executor.hpp"
#include "millrace/text/parse_enum.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace {
namespace {

constexpr std::string_view kVirtual = "virtual:";
constexpr std::string_view kCuda = "cuda:";

[[noreturn]] void refuse(std::string_view name) {
  std::vector<std::string> expected;
  for (const std::string& profile : DeviceProfile::names()) {
    expected.push_back(fmt::format("{}{}", kVirtual, profile));
  }
  expected.emplace_back("cuda:N");
  text::refuse_name("device", name, expected);
}

DeviceProfile profile(std::string_view name) {
  const std::string_view profile = name.substr(kVirtual.size());
  for (const std::string& known : DeviceProfile::names()) {
    if (known == profile) return DeviceProfile::named(known);
  }
  refuse(name);
}

int ordinal(std::string_view name) {
  const int number = text::parse_number<int>(name.substr(kCuda.size())).value_or(-1);
  if (number < 0) refuse(name);
  const CudaDeviceCount gpus = cuda_device_count();
  if (gpus.count == 0) {
    throw std::invalid_argument{fmt::format("{} does not exist here: {}", name, gpus.reason)};
  }
  if (number >= gpus.count) {
    throw std::invalid_argument{
        fmt::format("{} does not exist here: the last GPU is cuda:{}", name, gpus.count - 1)};
  }
  return number;
}

class VirtualRunDevice final : public RunDevice {
 public:
  VirtualRunDevice(DeviceProfile profile, const RunDeviceOptions& given)
      : device_(machine_.add_device(options(std::move(profile), given))) {}

  Device& device() noexcept override { return device_; }
  Executor& executor() noexcept override { return machine_.executor(); }
  VirtualMachine* machine() noexcept override { return &machine_; }

 private:
  static VirtualDevice::Options options(DeviceProfile profile, const RunDeviceOptions& given) {
    VirtualDevice::Options options;
    options.profile = std::move(profile);
    if (given.run_ahead > 0) options.launch_queue_depth = given.run_ahead;
    options.data = given.data;
    return options;
  }

  VirtualMachine machine_;
  VirtualDevice& device_;
};

class CudaRunDevice final : public RunDevice {
 public:
  explicit CudaRunDevice(int ordinal) : device_(CudaDevice::create(ordinal)) {}

  Device& device() noexcept override { return *device_; }
  Executor& executor() noexcept override { return executor_; }
  VirtualMachine* machine() noexcept override { return nullptr; }

 private:
  std::unique_ptr<CudaDevice> device_;
  ThreadExecutor executor_;
};

}  // namespace

DeviceDescription find_device(std::string_view name) {
  if (name.starts_with(kVirtual)) {
    const DeviceProfile model = profile(name);
    return {std::string{name}, model.title, model.memory_bytes, true};
  }
  if (!name.starts_with(kCuda)) refuse(name);
  const CudaDeviceInfo info = cuda_device_info(ordinal(name));
  return {std::string{name}, info.title, info.memory_bytes, false};
}

std::unique_ptr<RunDevice> RunDevice::open(std::string_view name, const RunDeviceOptions& options) {
  if (name.starts_with(kVirtual)) {
    return std::make_unique<VirtualRunDevice>(profile(name), options);
  }
  if (!name.starts_with(kCuda)) refuse(name);
  return std::make_unique<CudaRunDevice>(ordinal(name));
}

}  // namespace millrace
