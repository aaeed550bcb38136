#include "test/property/faults.hpp"

#include "millrace/device/ordered_device.hpp"

namespace millrace::test {

void LibraryFault::before(Call call) {
  if (suspended_) return;
  if (lost_) throw DeviceError{ErrorCode::device_lost, to_string(call), "injected before"};
  if (!InLibrary::now() || in_host_callback()) return;
  const std::uint64_t count = ++seen_[static_cast<std::size_t>(call)];
  if (!fault_ || fault_->call != call || fault_->nth != count) return;
  struck_ = true;
  lost_ = fault_->code == ErrorCode::device_lost;
  throw DeviceError{fault_->code, to_string(call), "injected"};
}

}  // namespace millrace::test
