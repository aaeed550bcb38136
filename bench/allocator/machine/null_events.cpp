#include "allocator/machine/null_events.hpp"

#include <new>

namespace millrace::bench {

NullEvents::NullEvents() {
  constexpr std::size_t kUsual = 4096;
  unused_.reserve(kUsual);
  while (unused_.size() < kUsual) {
    unused_.push_back(new (memory_.allocate(sizeof(Event), alignof(Event))) Event{0});
  }
}

EventHandle NullEvents::create() {
  const std::lock_guard lock{mutex_};
  if (unused_.empty()) return {new (memory_.allocate(sizeof(Event), alignof(Event))) Event{0}};
  Event* const event = unused_.back();
  unused_.pop_back();
  event->store(0, std::memory_order_relaxed);
  return {event};
}

void NullEvents::destroy(EventHandle event) {
  const std::lock_guard lock{mutex_};
  unused_.push_back(&at(event));
}

}  // namespace millrace::bench
