#include "device/virtual/machine.hpp"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "device/virtual/device_model.hpp"
#include "device/virtual/meeting_state.hpp"

namespace millrace::simulation {

Machine::Machine(const VirtualMachine::Options& given)
    : options(given),
      pinned(given.host_memory),
      schedule(given.schedule == VirtualMachine::Schedule::timed
                   ? make_timed_schedule(*this)
                   : make_adversarial_schedule(*this, given.seed)),
      actors(*schedule),
      exceptions_at_start_(std::uncaught_exceptions()) {}

Machine::~Machine() {
  // A static machine may end on another thread than the one that made it.
  actors.adopt_thread();
  try {
    drain();
  } catch (...) {  // for example a callback that never ends: its actor is canceled below
  }
  actors.cancel_all();
}

void Machine::drain() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  std::vector<std::shared_ptr<WorkItem>> last;
  std::vector<std::shared_ptr<WorkItem>> gates;
  std::vector<std::shared_ptr<MeetingState>> meetings;
  for (const auto& device : devices_) {
    for (StreamState* stream : device->model().streams) {
      for (const auto& item : stream->queue) {
        if (unwinding)
          item->effect = nullptr;  // the objects that it refers to may be destroyed already
        if (item->kind == WorkItem::Kind::gate) gates.push_back(item);
        if (item->meeting == nullptr) continue;
        if (unwinding) item->meeting->effect = nullptr;
        if (!item->meeting->complete()) meetings.push_back(item->meeting);
      }
      if (!stream->queue.empty()) last.push_back(stream->queue.back());
    }
  }
  for (const auto& gate : gates) open(*gate);
  for (const auto& meeting : meetings) meeting->cancel();
  await(last, "the end of all work");
}

VirtualDevice& Machine::add_device(const VirtualDevice::Options& given) {
  auto model = std::make_unique<DeviceModel>(*this, static_cast<unsigned>(devices_.size()), given);
  devices_.push_back(std::unique_ptr<VirtualDevice>(new VirtualDevice(std::move(model))));
  return *devices_.back();
}

void Machine::submit(StreamState& stream, std::shared_ptr<WorkItem> item) {
  item->stream = &stream;
  item->sequence = ++stream.enqueued;
  item->index = next_index++;
  stream.queue.push_back(std::move(item));
  ++stream.device->pending;
  schedule->submitted(stream);
}

void Machine::await(Schedule::Items items, const std::string& what) {
  Actor& me = actors.current();
  for (const auto& item : items) {
    if (item->done()) continue;
    item->waiting_actors.emplace_back(&me, me.wait);
    me.awaited.push_back(item);
  }
  me.awaited_left = me.awaited.size();
  if (me.awaited_left > 0) actors.block(me, what);
}

void Machine::begin(WorkItem& item, Nanoseconds when) {
  item.phase = WorkItem::Phase::running;
  item.begin = when;
  item.stream->device->busy.begin(item.engine, when);
}

std::vector<StreamState*> Machine::end(WorkItem& item, Nanoseconds when) {
  StreamState& stream = *item.stream;
  DeviceModel& device = *stream.device;
  const std::shared_ptr<WorkItem> kept = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.last_end = when;
  item.phase = WorkItem::Phase::done;
  item.end = when;
  device.busy.end(item.engine, when);
  if (const auto effect = std::exchange(item.effect, nullptr)) {
    try {
      effect();
    } catch (const std::exception& error) {
      device.lose(fmt::format("{} on stream {}: {}", item.name, stream.name, error.what()));
    } catch (...) {
      device.lose(fmt::format("{} on stream {} threw", item.name, stream.name));
    }
  }
  if (observed()) report(item);
  item.views.clear();
  item.after.clear();
  item.stream = nullptr;
  item.meeting = nullptr;
  device.item_done(when);
  for (const auto& [actor, wait] : std::exchange(item.waiting_actors, {})) {
    if (actor->state != Actor::State::blocked || actor->wait != wait) continue;
    if (--actor->awaited_left == 0) actors.wake(*actor, when + device.profile.wake_latency);
  }
  return std::exchange(item.held_streams, {});
}

void Machine::begin(MeetingState& meeting, Nanoseconds when) {
  meeting.begun = true;
  for (const MeetingState::Part& part : meeting.parts) begin(*part.item, when);
}

std::vector<StreamState*> Machine::end(MeetingState& meeting, Nanoseconds when) {
  meeting.take_effect();
  std::vector<StreamState*> held;
  for (MeetingState::Part& part : std::exchange(meeting.parts, {})) {
    const auto more = end(*part.item, when);
    held.insert(held.end(), more.begin(), more.end());
  }
  return held;
}

void Machine::report(const WorkItem& item) const {
  const StreamState& stream = *item.stream;
  ExecutedOperation executed;
  executed.name = item.name;
  executed.stream_name = stream.name;
  executed.device = stream.device->ordinal;
  executed.stream_id = stream.id;
  executed.index = item.index;
  executed.engine = item.engine;
  executed.enqueued = item.enqueued;
  executed.begin = item.begin;
  executed.end = item.end;
  executed.views = item.views;
  executed.cost = item.cost;
  executed.alone = item.demand.alone();
  std::vector<std::uint64_t> after;
  for (const auto& earlier : item.after) after.push_back(earlier->index);
  executed.after = after;
  for (TimelineObserver* timeline : timelines) timeline->executed(executed);
}

void Machine::call_back(const std::shared_ptr<WorkItem>& item, Nanoseconds when) {
  item->stream->device->add_callback(item, when);
}

void Machine::open(WorkItem& gate) {
  if (gate.open) return;
  gate.open = true;
  schedule->opened(gate);
}

bool Machine::pageable(const void* address) const noexcept {
  return device_of(address) == nullptr && !pinned.contains(address);
}

bool Machine::pageable(const VirtualDevice& device, const void* address) noexcept {
  return device.model().machine.pageable(address);
}

DeviceModel* Machine::device_of(const void* address) const noexcept {
  for (const auto& device : devices_) {
    if (device->model().memory.contains(address)) return &device->model();
  }
  return nullptr;
}

}  // namespace millrace::simulation
