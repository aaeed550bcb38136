#include <algorithm>

#include "millrace/device/cuda_device.hpp"
#include "test/support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using millrace::cuda_device_count;
using millrace::cuda_device_info;
using millrace::CudaDevice;
using millrace::CudaDeviceCount;
using millrace::DeviceError;
using millrace::ErrorCode;

namespace {

ErrorCode refusal(int ordinal) {
  try {
    static_cast<void>(CudaDevice::create(ordinal));
  } catch (const DeviceError& error) {
    return error.code();
  }
  return ErrorCode::unknown;
}

}  // namespace

TEST_CASE("a GPU is present, or one line says why none is") {
  const CudaDeviceCount devices = cuda_device_count();
  CHECK(devices.count >= 0);
  CHECK(devices.reason.empty() == (devices.count > 0));
  CHECK(std::count(devices.reason.begin(), devices.reason.end(), '\n') == 0);
}

TEST_CASE("counting the GPUs again gives the same answer") {
  CHECK(cuda_device_count().count == cuda_device_count().count);
  CHECK(cuda_device_count().reason == cuda_device_count().reason);
}

TEST_CASE("a GPU that does not exist is refused, and the message says which GPUs exist") {
  const CudaDeviceCount devices = cuda_device_count();
  const std::string there = devices.count == 0 ? devices.reason : "there is cuda:0";
  CHECK_THROWS_WITH(CudaDevice::create(devices.count), ContainsSubstring(there));
  CHECK_THROWS_WITH(CudaDevice::create(-1), ContainsSubstring(there));
  CHECK_THROWS_WITH(cuda_device_info(devices.count), ContainsSubstring(there));
  CHECK(refusal(devices.count) ==
        (devices.count == 0 ? ErrorCode::not_supported : ErrorCode::invalid_argument));
}
