#include "test/streamer/capture/observer_waits.hpp"

#include <fmt/format.h>

namespace millrace::test {

ObserverWaits::ObserverWaits(TrainingRig& rig, RowUpdateObserver& observer, std::string left_out)
    : rig_(rig), observer_(observer), left_out_(std::move(left_out)) {
  rig.bags->remove_observer(observer);
  rig.bags->add_observer(*this);
  rig.program_device.leave_out_if([this](const std::string& edge) { return leaves_out(edge); });
}

ObserverWaits::~ObserverWaits() {
  rig_.program_device.leave_out_if([](const std::string&) { return false; });
  rig_.bags->remove_observer(*this);
}

void ObserverWaits::rows_updated(const RowUpdate& update) {
  const bool first = std::exchange(first_, false);
  during(first ? "first" : "later", first, [&] { observer_.rows_updated(update); });
}

void ObserverWaits::rows_will_move(StreamRef stream) {
  during("move", false, [&] { observer_.rows_will_move(stream); });
}

bool ObserverWaits::leaves_out(const std::string& edge) {
  const bool beside = std::this_thread::get_id() != thread_;
  if (!beside && place_.empty()) return false;
  const std::size_t between = edge.find(" waits for ");
  if (edge.substr(0, between) == edge.substr(between + 11)) return false;  // own stream
  std::string wait = fmt::format("{}, {}", edge, beside ? "beside" : place_);
  if (!beside && numbered_) wait += fmt::format(" {}", ++of_call_[edge]);
  made_.insert(wait);
  return wait == left_out_;
}

}  // namespace millrace::test
