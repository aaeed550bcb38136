#include "process/program_device.hpp"

namespace millrace::interpose {
namespace {

thread_local ProgramCall* current = nullptr;

}  // namespace

ProgramCall::ProgramCall(const std::function<bool()>& call) noexcept
    : call_(&call), was_made_(false) {
  current = this;
}

ProgramCall::ProgramCall() noexcept : call_(nullptr), was_made_(true) { current = this; }

ProgramCall::~ProgramCall() { current = nullptr; }

bool ProgramCall::replaces() {
  if (current == nullptr) return false;
  if (current->was_made_) return true;
  current->was_made_ = true;
  if ((*current->call_)()) return true;
  throw DeviceError{ErrorCode::unknown, "the program's call", "the program sees its error"};
}

void ProgramDevice::do_synchronize(StreamHandle stream) {
  if (!ProgramCall::replaces()) gpu_->synchronize(stream);
}

void ProgramDevice::do_synchronize() {
  if (!ProgramCall::replaces()) gpu_->synchronize();
}

void ProgramDevice::do_wait(StreamHandle stream, EventHandle event) {
  if (!ProgramCall::replaces()) gpu_->wait(stream, event);
}

void ProgramDevice::do_synchronize(EventHandle event) {
  if (!ProgramCall::replaces()) gpu_->synchronize(event);
}

}  // namespace millrace::interpose
