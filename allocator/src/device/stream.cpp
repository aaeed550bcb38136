#include "millrace/device/stream.hpp"

#include <utility>

namespace millrace {

Stream::Stream(OrderedDevice& device, const StreamOptions& options, bool independent)
    : device_(&device), ref_(device.device().create_stream(options)) {
  try {
    ref_ = device.attach(ref_.handle(), {.name = options.name, .independent = independent});
  } catch (...) {
    device.device().destroy_stream(ref_.handle());
    throw;
  }
}

Stream::~Stream() { close(); }

Stream::Stream(Stream&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), ref_(other.ref_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    close();
    device_ = std::exchange(other.device_, nullptr);
    ref_ = other.ref_;
  }
  return *this;
}

void Stream::close() noexcept {
  if (device_ == nullptr) return;
  try {
    device_->detach(ref_);
  } catch (const DeviceError&) {  // its freed memory then waits for a synchronization
  }
  try {
    device_->device().destroy_stream(ref_.handle());
  } catch (const DeviceError&) {
  }
  device_ = nullptr;
}

void Stream::wait_stream(StreamRef other) {
  Event event;
  device_->record(event, other);
  device_->wait(ref_, event);
}

}  // namespace millrace
