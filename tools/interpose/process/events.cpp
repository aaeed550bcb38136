#include "process/events.hpp"

namespace millrace::interpose {

void Events::forget(cudaEvent_t event) {
  const std::lock_guard lock{mutex_};
  known_.erase(event);
}

void Events::recorded(cudaEvent_t event, const Recorded& record) {
  const std::lock_guard lock{mutex_};
  if (!unseen_.contains(event)) known_.insert_or_assign(event, record);
}

std::optional<Recorded> Events::find(cudaEvent_t event) const {
  const std::lock_guard lock{mutex_};
  const auto it = known_.find(event);
  return it == known_.end() ? std::nullopt : std::optional{it->second};
}

void Events::never_know(cudaEvent_t event) {
  const std::lock_guard lock{mutex_};
  known_.erase(event);
  unseen_.insert(event);
}

void Events::destroyed(cudaEvent_t event) {
  const std::lock_guard lock{mutex_};
  known_.erase(event);
  unseen_.erase(event);
}

}  // namespace millrace::interpose
