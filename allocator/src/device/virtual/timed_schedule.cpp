#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "device/virtual/compute_engine.hpp"
#include "device/virtual/copy_engine.hpp"
#include "device/virtual/device_model.hpp"
#include "device/virtual/machine.hpp"
#include "device/virtual/meeting_state.hpp"
#include "device/virtual/schedule.hpp"

namespace millrace::simulation {
namespace {

/** The engines of one device. */
struct Engines {
  explicit Engines(unsigned concurrent_kernels) : compute(concurrent_kernels) {}

  CopyEngine copies[2];  ///< one for each direction: to the device, to the host
  ComputeEngine compute;
  std::uint64_t compute_version = 0;  ///< of its planned change; older events are ignored
  bool compute_dirty = false;
  bool linked = false;  ///< takes part in a meeting now
};

/**
 * A discrete-event simulation. An event is a point in time at which a stream's first item becomes
 * ready, an item ends, or the kernels of a device change. Devices never run ahead of the actor with
 * the smallest clock. When it runs, all events up to and including its clock have happened.
 */
class TimedSchedule final : public Schedule {
 public:
  explicit TimedSchedule(Machine& machine) : machine_(machine) {}

  Actor* next(Actor&) override {
    for (;;) {
      Actor* actor = first_ready();
      if (!events_.empty() && (actor == nullptr || events_.top().when <= actor->clock)) {
        step();
        continue;
      }
      if (actor != nullptr) now_ = std::max(now_, actor->clock);
      return actor;
    }
  }

  void submitted(StreamState& stream) override {
    if (stream.queue.size() == 1) examine(stream);
    settle();
  }

  void opened(WorkItem& gate) override {
    if (gate.phase != WorkItem::Phase::running) return;
    end(gate);
    settle();
  }

  void canceled(MeetingState& meeting) override {
    for (const MeetingState::Part& part : meeting.parts) {
      if (part.at_head) end_unmet(part.item);
    }
    settle();
  }

  void called_back(WorkItem& item, Nanoseconds when) override {
    now_ = std::max(now_, when);
    end(item);
    settle();
  }

  bool answer(Items items) override {
    return std::all_of(items.begin(), items.end(), [](const auto& item) { return item->done(); });
  }

 private:
  struct Event {
    enum class Kind : unsigned char { stream_ready, item_ends, kernels_change, meeting_ends };

    Nanoseconds when{0};
    std::uint64_t order = 0;
    Kind kind = Kind::stream_ready;
    StreamState* stream = nullptr;
    std::shared_ptr<WorkItem> item = nullptr;
    DeviceModel* device = nullptr;
    std::uint64_t version = 0;

    friend bool operator<(const Event& a, const Event& b) {
      return std::tie(a.when, a.order) > std::tie(b.when, b.order);
    }
  };

  Actor* first_ready() const {
    Actor* first = nullptr;
    for (Actor* actor : machine_.actors.live()) {
      if (actor->state == Actor::State::ready &&
          (first == nullptr || actor->clock < first->clock)) {
        first = actor;
      }
    }
    return first;
  }

  void plan(Nanoseconds when, Event event) {
    event.when = when;
    event.order = next_order_++;
    events_.push(std::move(event));
  }

  /** Handles all events that happen at the time of the next one. */
  void step() {
    now_ = events_.top().when;
    while (!events_.empty() && events_.top().when == now_) {
      const Event event = events_.top();
      events_.pop();
      happen(event);
    }
    settle();
  }

  void happen(const Event& event) {
    switch (event.kind) {
      case Event::Kind::stream_ready:
        event.stream->queue.front()->phase = WorkItem::Phase::queued;
        examine(*event.stream);
        break;
      case Event::Kind::item_ends:
        if (is_copy_engine(event.item->engine)) copy_engine(*event.item).finished();
        end(*event.item);
        break;
      case Event::Kind::kernels_change:
        kernels_change(*event.device, event.version);
        break;
      case Event::Kind::meeting_ends:
        end_meeting(event.item->meeting);
        break;
    }
  }

  void kernels_change(DeviceModel& device, std::uint64_t version) {
    Engines& engines = engines_of(device);
    if (version != engines.compute_version) return;
    for (const auto& item : engines.compute.take_finished(now_)) end(*item);
    dirty(device);
  }

  void end(WorkItem& item) {
    to_examine_.push_back(item.stream);
    for (StreamState* held : machine_.end(item, now_)) to_examine_.push_back(held);
    examine_all();
  }

  void end_meeting(std::shared_ptr<MeetingState> meeting) {
    for (const MeetingState::Part& part : meeting->parts) {
      to_examine_.push_back(part.item->stream);
      engines_of(*part.item->stream->device).linked = false;
    }
    for (StreamState* held : machine_.end(*meeting, now_)) to_examine_.push_back(held);
    examine_all();
  }

  // A loop instead of recursion: starting an item may end it at once, which adds more streams.
  void examine_all() {
    if (examining_) return;
    examining_ = true;
    while (!to_examine_.empty()) {
      StreamState* const next = to_examine_.back();
      to_examine_.pop_back();
      examine(*next);
    }
    examining_ = false;
  }

  /**
   * Starts the stream's first item if it can begin now. Otherwise the stream is examined again when
   * the item's time comes, or when an item that it waits for ends.
   */
  void examine(StreamState& stream) {
    if (stream.queue.empty() || stream.queue.front()->phase != WorkItem::Phase::queued) return;
    const std::shared_ptr<WorkItem> item = stream.queue.front();
    Nanoseconds ready = std::max(item->ready_from, stream.last_end);
    for (const auto& before : item->after) {
      if (!before->done()) {
        before->held_streams.push_back(&stream);
        return;
      }
      ready = std::max(ready, before->end + stream.device->profile.wait_latency);
    }
    if (ready > now_) {
      item->phase = WorkItem::Phase::scheduled;
      plan(ready, {.kind = Event::Kind::stream_ready, .stream = &stream});
      return;
    }
    start(item);
  }

  void start(const std::shared_ptr<WorkItem>& item) {
    DeviceModel& device = *item->stream->device;
    item->phase = WorkItem::Phase::scheduled;
    switch (item->kind) {
      case WorkItem::Kind::kernel:
      case WorkItem::Kind::fill:
      case WorkItem::Kind::copy:
        return start_work(item, device);
      case WorkItem::Kind::callback:
        return machine_.call_back(item, now_ + device.profile.callback_latency);
      case WorkItem::Kind::meeting:
        return come_to_meeting(item);
      case WorkItem::Kind::gate:
        machine_.begin(*item, now_);
        if (item->open) end(*item);
        return;
      case WorkItem::Kind::record:
      case WorkItem::Kind::wait:
      case WorkItem::Kind::pool:
        machine_.begin(*item, now_);
        return end_after(item, item->demand.alone());
    }
  }

  void start_work(const std::shared_ptr<WorkItem>& item, DeviceModel& device) {
    if (is_copy_engine(item->engine)) {
      copy_engine(*item).add(item, now_);
      copies_dirty_.push_back(&device);
    } else if (item->engine == Engine::compute) {
      engines_of(device).compute.add(item);
      dirty(device);
    } else {
      machine_.begin(*item, now_);
      end_after(item, item->demand.alone());
    }
  }

  void come_to_meeting(const std::shared_ptr<WorkItem>& item) {
    MeetingState& meeting = *item->meeting;
    if (meeting.canceled) return end_unmet(item);
    for (MeetingState::Part& part : meeting.parts) part.at_head |= part.item == item;
    if (meeting.all_at_head()) met_.push_back(item->meeting);
  }

  void end_unmet(const std::shared_ptr<WorkItem>& item) {
    machine_.begin(*item, now_);
    end(*item);
  }

  /**
   * Begins the meetings whose devices take part in no other one, in the order in which they became
   * complete.
   */
  void start_meetings() {
    std::vector<std::shared_ptr<MeetingState>> wait;
    for (const auto& meeting : std::exchange(met_, {})) {
      if (meeting->canceled) continue;
      const bool busy = std::ranges::any_of(meeting->parts, [&](const MeetingState::Part& part) {
        return engines_of(*part.item->stream->device).linked;
      });
      if (busy) {
        wait.push_back(meeting);
        continue;
      }
      for (const MeetingState::Part& part : meeting->parts) {
        engines_of(*part.item->stream->device).linked = true;
      }
      machine_.begin(*meeting, now_);
      plan(now_ + meeting->duration(),
           {.kind = Event::Kind::meeting_ends, .item = meeting->parts.front().item});
    }
    met_.insert(met_.end(), wait.begin(), wait.end());
  }

  void end_after(const std::shared_ptr<WorkItem>& item, Nanoseconds duration) {
    if (duration.count() == 0) return end(*item);
    plan(now_ + duration, {.kind = Event::Kind::item_ends, .item = item});
  }

  /** Lets the engines take the items that became ready, after all events of one time. */
  void settle() {
    while (!copies_dirty_.empty() || !compute_dirty_.empty()) {
      for (DeviceModel* device : std::exchange(copies_dirty_, {})) start_copies(*device);
      for (DeviceModel* device : std::exchange(compute_dirty_, {})) start_kernels(*device);
    }
    start_meetings();
  }

  void start_copies(DeviceModel& device) {
    for (CopyEngine& engine : engines_of(device).copies) {
      const auto item = engine.start();
      if (item == nullptr) continue;
      machine_.begin(*item, now_);
      plan(now_ + item->demand.alone(), {.kind = Event::Kind::item_ends, .item = item});
    }
  }

  void start_kernels(DeviceModel& device) {
    Engines& engines = engines_of(device);
    engines.compute_dirty = false;
    for (WorkItem* item : engines.compute.start(now_)) machine_.begin(*item, now_);
    ++engines.compute_version;
    if (engines.compute.idle()) return;
    plan(engines.compute.next_change(now_), {.kind = Event::Kind::kernels_change,
                                             .device = &device,
                                             .version = engines.compute_version});
  }

  void dirty(DeviceModel& device) {
    if (std::exchange(engines_of(device).compute_dirty, true)) return;
    compute_dirty_.push_back(&device);
  }

  static bool is_copy_engine(Engine engine) {
    return engine == Engine::host_to_device || engine == Engine::device_to_host;
  }

  CopyEngine& copy_engine(const WorkItem& item) {
    Engines& engines = engines_of(*item.stream->device);
    copies_dirty_.push_back(item.stream->device);
    return engines.copies[item.engine == Engine::host_to_device ? 0 : 1];
  }

  Engines& engines_of(DeviceModel& device) {
    if (engines_.size() <= device.ordinal) engines_.resize(device.ordinal + 1);
    std::unique_ptr<Engines>& engines = engines_[device.ordinal];
    if (!engines) engines = std::make_unique<Engines>(device.profile.concurrent_kernels);
    return *engines;
  }

  Machine& machine_;
  Nanoseconds now_{0};
  std::priority_queue<Event> events_;
  std::uint64_t next_order_ = 0;
  std::vector<std::unique_ptr<Engines>> engines_;
  std::vector<DeviceModel*> copies_dirty_;
  std::vector<DeviceModel*> compute_dirty_;
  std::vector<std::shared_ptr<MeetingState>> met_;  ///< all parts are at the head; not begun
  std::vector<StreamState*> to_examine_;
  bool examining_ = false;
};

}  // namespace

std::unique_ptr<Schedule> make_timed_schedule(Machine& machine) {
  return std::make_unique<TimedSchedule>(machine);
}

}  // namespace millrace::simulation
