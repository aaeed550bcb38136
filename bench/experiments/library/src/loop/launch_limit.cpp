#include "loop/launch_limit.hpp"

namespace millrace::experiment {

LaunchLimit::~LaunchLimit() {
  idle_.insert(idle_.end(), pending_.begin(), pending_.end());
  for (const EventHandle event : idle_) {
    try {
      device_.destroy_event(event);
    } catch (const DeviceError&) {
    }
  }
}

void LaunchLimit::before_launch() {
  if (most_ == 0 || pending_.size() < most_) return;
  ++waited_;
  device_.synchronize(pending_.front());
  idle_.push_back(pending_.front());
  pending_.pop_front();
}

void LaunchLimit::launched(StreamHandle stream) {
  if (most_ == 0) return;
  if (idle_.empty()) {
    ++created_;
    idle_.push_back(device_.create_event());
  }
  ++recorded_;
  device_.record(idle_.back(), stream);
  pending_.push_back(idle_.back());
  idle_.pop_back();
}

std::uint64_t LaunchLimit::own_calls(Call call) const noexcept {
  if (call == Call::create_event) return created_;
  if (call == Call::record) return recorded_;
  return call == Call::synchronize_event ? waited_ : 0;
}

}  // namespace millrace::experiment
