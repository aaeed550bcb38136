#include "millrace/device/fault.hpp"

namespace millrace {

FaultInjector::FaultInjector(Device& device) : device_(device) { device_.add_observer(*this); }

FaultInjector::~FaultInjector() { device_.remove_observer(*this); }

void FaultInjector::fail_call(std::uint64_t number, ErrorCode code) {
  const std::lock_guard lock{mutex_};
  any_ = Planned{number, code};
}

void FaultInjector::fail(Call kind, std::uint64_t number, ErrorCode code) {
  const std::lock_guard lock{mutex_};
  of_kind_[static_cast<std::size_t>(kind)] = Planned{number, code};
}

void FaultInjector::fail_each(Call kind, ErrorCode code) { fail(kind, 0, code); }

void FaultInjector::clear() {
  const std::lock_guard lock{mutex_};
  any_.reset();
  of_kind_.fill(std::nullopt);
  lost_ = false;
}

std::uint64_t FaultInjector::injected() const {
  const std::lock_guard lock{mutex_};
  return injected_;
}

std::uint64_t FaultInjector::calls() const {
  const std::lock_guard lock{mutex_};
  return calls_;
}

void FaultInjector::before(Call call) {
  const auto code = due(call);
  if (code) throw DeviceError(*code, to_string(call), "injected");
}

std::optional<ErrorCode> FaultInjector::due(Call call) {
  const std::lock_guard lock{mutex_};
  ++calls_;
  std::optional<ErrorCode> code;
  if (lost_) code = ErrorCode::device_lost;
  count_down(any_, code);
  count_down(of_kind_[static_cast<std::size_t>(call)], code);
  if (!code) return code;
  ++injected_;
  lost_ = *code == ErrorCode::device_lost;
  return code;
}

void FaultInjector::count_down(std::optional<Planned>& plan, std::optional<ErrorCode>& due) {
  if (!plan) return;
  const bool each = plan->left == 0;
  if (!each && --plan->left > 0) return;
  if (!due) due = plan->code;
  if (!each) plan.reset();
}

}  // namespace millrace
