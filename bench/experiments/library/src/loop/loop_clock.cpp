#include "millrace/experiment/loop_clock.hpp"

#include <string>
#include <utility>

namespace millrace::experiment {
namespace {

std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

EventClock::~EventClock() {
  for (const auto& lane : pairs_) {
    for (const Pair& pair : lane) {
      for (const EventHandle event : {pair.begin, pair.end}) {
        try {
          if (event.value != nullptr) device_.destroy_event(event);
        } catch (const DeviceError&) {
        }
      }
    }
  }
}

EventHandle EventClock::stamp(StreamHandle stream) {
  const EventHandle event = device_.create_event(true);
  device_.record(event, stream);
  ++stamps_;
  return event;
}

void EventClock::begin(Lane lane, StreamHandle stream) {
  pairs_[index(lane)].push_back({stamp(stream), {}});
}

void EventClock::end(Lane lane, StreamHandle stream) {
  pairs_[index(lane)].back().end = stamp(stream);
}

std::vector<TimeSpan> EventClock::times(Lane lane) {
  std::vector<TimeSpan> times;
  for (const Pair& pair : pairs_[index(lane)]) {
    times.push_back({device_.event_time(pair.begin), device_.event_time(pair.end)});
  }
  return times;
}

std::uint64_t EventClock::own_calls(Call call) const {
  return call == Call::create_event || call == Call::record ? stamps_ : 0;
}

TimelineClock::TimelineClock(VirtualMachine& machine, std::string main)
    : machine_(machine), main_(std::move(main)) {
  machine_.add_timeline(*this);
}

TimelineClock::~TimelineClock() { machine_.remove_timeline(*this); }

void TimelineClock::executed(const ExecutedOperation& operation) {
  const TimeSpan time{operation.begin, operation.end};
  if (operation.engine == Engine::host_to_device) times_[index(Lane::copy)].push_back(time);
  if (operation.engine == Engine::compute && operation.stream_name == main_) {
    times_[index(Lane::main)].push_back(time);
  }
}

std::vector<TimeSpan> TimelineClock::times(Lane lane) { return times_[index(lane)]; }

}  // namespace millrace::experiment
