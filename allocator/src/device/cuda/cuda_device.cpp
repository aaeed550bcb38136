#include "millrace/device/cuda_device.hpp"

#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"
#include "device/range_page.hpp"
#include "millrace/device/ordered_device.hpp"

namespace millrace {
namespace cuda {

Runtime::Runtime(int ordinal, const Options& options)
    : ordinal_(ordinal), info_(cuda_device_info(ordinal)) {
  context_ = primary_context(ordinal);
  const CurrentContext current{context_};
  const OutsideCapture outside;
  try {
    machine();
  } catch (const DeviceError&) {  // before main, CUDA does not know this program's kernels yet:
                                  // `machine` is called again later
  }
  clock_ = std::make_unique<EventClock>();
  if (info_.virtual_memory) {
    virtual_memory_.emplace(ordinal, range_page(info_.page_bytes, info_.memory_bytes));
  }
  if (info_.memory_pools) pool_ = make_pool(ordinal, options.pool);
}

Runtime::~Runtime() {
  try {
    const CurrentContext current{context_};
    const OutsideCapture outside;
    if (callbacks_pending_ > 0) quietly(cudaDeviceSynchronize());
    pool_.reset();
    clock_.reset();
  } catch (const DeviceError&) {  // lost, or the process ends: nothing is left to release
  }
}

CurrentContext Runtime::enter() const {
  failure_.rethrow_if_any();
  if (in_host_callback()) [[unlikely]] {
    throw DeviceError{ErrorCode::not_supported, name(), "a host callback must not call a device"};
  }
  return CurrentContext{context_};
}

}  // namespace cuda

std::unique_ptr<CudaDevice> CudaDevice::create(int ordinal) { return create(ordinal, {}); }

std::unique_ptr<CudaDevice> CudaDevice::create(int ordinal, const Options& options) {
  return std::make_unique<cuda::Runtime>(ordinal, options);
}

}  // namespace millrace
