#include "device/cuda/context.hpp"

namespace millrace::cuda {

CUcontext primary_context(int ordinal) {
  CUdevice device{};
  CUcontext context = nullptr;
  check(driver().cuDeviceGet(&device, ordinal), "cuDeviceGet", ordinal);
  check(driver().cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", ordinal);
  return context;
}

}  // namespace millrace::cuda
