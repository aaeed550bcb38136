#include "device/virtual/device_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "device/range_page.hpp"

namespace millrace::simulation {
namespace {

constexpr double kNanoseconds = 1e9;

[[noreturn]] void refuse(Call call, const std::string& detail,
                         ErrorCode code = ErrorCode::invalid_argument) {
  throw DeviceError(code, to_string(call), detail);
}

std::uintptr_t number(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

}  // namespace

void BusyTimes::begin(Engine engine, Nanoseconds when) {
  EngineTime& time = engines_[static_cast<std::size_t>(engine)];
  if (time.running++ == 0) time.since = when;
}

void BusyTimes::end(Engine engine, Nanoseconds when) {
  EngineTime& time = engines_[static_cast<std::size_t>(engine)];
  if (--time.running == 0) time.total += when - time.since;
}

Nanoseconds BusyTimes::total(Engine engine, Nanoseconds now) const {
  const EngineTime& time = engines_[static_cast<std::size_t>(engine)];
  return time.total + (time.running > 0 ? now - time.since : Nanoseconds{0});
}

DeviceModel::DeviceModel(Machine& of, unsigned number_of_device,
                         const VirtualDevice::Options& options)
    : machine(of),
      ordinal(number_of_device),
      profile(options.profile),
      queue_depth(options.launch_queue_depth.value_or(options.profile.launch_queue_depth)),
      data(options.data),
      memory(options.memory_bytes.value_or(options.profile.memory_bytes),
             options.profile.allocation_granularity, options.data),
      page_bytes(range_page(memory.granularity(), memory.total())),
      pool(memory, options.profile.pool_granularity, options.profile.pool) {
  StreamOptions legacy_options;
  legacy_options.blocking = true;
  legacy_options.name = "legacy";
  default_streams.push_back(make_stream(legacy_options));
  legacy().legacy = true;
}

DeviceModel::~DeviceModel() = default;

void DeviceModel::check_alive(Call call) const {
  if (!lost_.empty()) refuse(call, lost_, ErrorCode::device_lost);
}

void DeviceModel::enter(Call call, Nanoseconds more_host_time) {
  const Actor* me = machine.actors.current_or_null();
  if (me == nullptr) {
    refuse(call, "the calling thread is not an actor of this virtual machine; start it with spawn");
  }
  if (me->service) {
    refuse(call, "a host callback must not call a device", ErrorCode::not_supported);
  }
  machine.actors.charge(profile.host(call) + more_host_time);
  check_alive(call);
  if (!draining_.empty()) forget_drained();
}

void DeviceModel::enter_enqueue(Call call) {
  enter(call);
  while (pending >= queue_depth) {
    Actor& me = machine.actors.current();
    me.room_on = this;
    room_waiters.emplace_back(&me, me.wait);
    machine.actors.block(me, fmt::format("room in the launch queue of device {}", ordinal));
  }
  check_alive(call);
}

// One place became free, so one waiter is woken: others would find the queue full again. Waiters
// stay in order of arrival. An entry is stale if a deadlock or a cancellation ended its actor's
// wait. A stale entry must not use up the wake-up, or later actors would sleep although a place is
// free.
void DeviceModel::item_done(Nanoseconds when) {
  --pending;
  while (pending < queue_depth && !room_waiters.empty()) {
    const auto [actor, wait] = room_waiters.front();
    room_waiters.pop_front();
    if (actor->state != Actor::State::blocked || actor->wait != wait) continue;
    machine.actors.wake(*actor, when);
    return;
  }
}

std::unique_ptr<StreamState> DeviceModel::make_stream(const StreamOptions& options) {
  auto stream = std::make_unique<StreamState>();
  stream->id = machine.next_stream_id++;
  stream->device = this;
  stream->name = options.name.empty() ? fmt::format("stream {}", stream->id) : options.name;
  stream->priority = options.priority;
  stream->blocking = options.blocking;
  streams.push_back(stream.get());
  return stream;
}

StreamHandle DeviceModel::add_stream(const StreamOptions& options) {
  return {machine.stream_handles.add(make_stream(options))};
}

StreamState& DeviceModel::thread_stream() {
  const Actor& me = machine.actors.current();
  StreamState*& stream = thread_streams[me.id];
  if (stream == nullptr) {
    StreamOptions options;
    options.blocking = true;
    options.name = fmt::format("per-thread of {}", me.name);
    default_streams.push_back(make_stream(options));
    stream = default_streams.back().get();
  }
  return *stream;
}

StreamState& DeviceModel::stream(StreamHandle handle, Call call) {
  if (handle.value == nullptr || number(handle.value) == kLegacyHandle) return legacy();
  if (number(handle.value) == kPerThreadHandle) return thread_stream();
  StreamState* found = machine.stream_handles.find(handle.value);
  if (found == nullptr) {
    refuse(call, fmt::format("{:#x} is not a stream (destroyed?)", number(handle.value)));
  }
  if (found->device != this) {
    refuse(call, fmt::format("stream {} belongs to device {}, not to device {}", found->name,
                             found->device->ordinal, ordinal));
  }
  return *found;
}

StreamState& DeviceModel::working_stream(StreamHandle handle, Call call) {
  StreamState& found = stream(handle, call);
  refuse_captured(found, call);
  return found;
}

CaptureStatus DeviceModel::capture_status(const StreamState& stream) const {
  const auto blocks = [](const StreamState* other) {
    return other->blocking && is_captured(other->capture);
  };
  return stream.legacy && std::ranges::any_of(streams, blocks) ? CaptureStatus::blocked
                                                               : stream.capture;
}

void DeviceModel::refuse_captured(const StreamState& stream, Call call) const {
  const CaptureStatus status = capture_status(stream);
  if (status == CaptureStatus::none) return;
  refuse(call, fmt::format("stream {}: {}", stream.name, why_refused(status)), ErrorCode::capture);
}

void DeviceModel::refuse_any_capture(Call call) const {
  for (const StreamState* stream : streams) {
    if (is_captured(stream->capture)) refuse_captured(*stream, call);
  }
}

EventState& DeviceModel::event(EventHandle handle, Call call) {
  EventState* found = machine.event_handles.find(handle.value);
  if (found == nullptr) {
    refuse(call, fmt::format("{:#x} is not an event (destroyed?)", number(handle.value)));
  }
  return *found;
}

void DeviceModel::destroy_stream(StreamHandle handle) {
  StreamState& gone = stream(handle, Call::destroy_stream);
  if (machine.stream_handles.find(handle.value) != &gone) {
    refuse(Call::destroy_stream, fmt::format("stream {} cannot be destroyed", gone.name));
  }
  // As in CUDA, the call returns at once and the stream's work still runs. The items in its queue
  // point to the stream; the legacy stream and synchronizations must wait for them; and a schedule
  // inspects the stream once more after its last item has ended. So the state is kept until a later
  // call finds the queue empty. The handle is invalid from now on.
  gone.destroyed = true;
  draining_.push_back(machine.stream_handles.remove(handle.value));
  forget_drained();
}

void DeviceModel::forget_drained() {
  std::erase_if(draining_, [&](const std::unique_ptr<StreamState>& stream) {
    if (!stream->queue.empty()) return false;
    std::erase(streams, stream.get());
    return true;
  });
}

// The rule of the legacy stream: its work comes after all earlier work of the device's blocking
// streams, and their later work comes after it. A queue runs in order, so an edge to its last item
// covers all of it, and an empty queue needs no edge. Streams that are not blocking, and the legacy
// stream itself, need none either.
std::shared_ptr<WorkItem> DeviceModel::enqueue(StreamState& stream,
                                               std::shared_ptr<WorkItem> item) {
  if (stream.legacy) {
    for (const StreamState* other : streams) {
      if (other->blocking && !other->legacy && !other->queue.empty()) {
        item->after.push_back(other->queue.back());
      }
    }
  } else if (stream.blocking && !legacy().queue.empty()) {
    item->after.push_back(legacy().queue.back());
  }
  const bool on_engine = item->engine != Engine::stream && item->engine != Engine::host;
  item->enqueued = machine.actors.current().clock;
  item->ready_from = item->enqueued + (on_engine ? profile.launch_latency : Nanoseconds{0});
  machine.submit(stream, item);
  return item;
}

std::vector<std::shared_ptr<WorkItem>> DeviceModel::last_items() const {
  std::vector<std::shared_ptr<WorkItem>> items;
  for (const StreamState* stream : streams) {
    if (!stream->queue.empty()) items.push_back(stream->queue.back());
  }
  return items;
}

void DeviceModel::synchronized(Call call) {
  check_alive(call);
  if (pool.info().reserved > pool.policy().release_threshold) {
    pool.trim(pool.policy().release_threshold);
  }
}

Place DeviceModel::place(const void* address, std::size_t bytes, Call call) const {
  const auto refuse_range = [&](const char* why) {
    refuse(call, fmt::format("{} bytes at {:#x} are {}", bytes, number(address), why));
  };
  if (DeviceModel* device = machine.device_of(address)) {
    if (!device->memory.holds(address, bytes)) refuse_range("not allocated on the device");
    return {device, false, device->data ? device->memory.kernel_address(address) : nullptr};
  }
  auto* const host = static_cast<std::byte*>(const_cast<void*>(address));
  if (!machine.pinned.contains(address)) return {nullptr, false, host};
  if (!machine.pinned.holds(address, bytes)) refuse_range("not allocated in pinned memory");
  return {nullptr, true, host};
}

Nanoseconds DeviceModel::mapping_time(std::size_t bytes) const {
  return profile.page_time * static_cast<Nanoseconds::rep>(bytes / page_bytes);
}

Nanoseconds DeviceModel::alias_time(std::size_t bytes) const {
  return profile.alias_time * static_cast<Nanoseconds::rep>(bytes / page_bytes);
}

Demand DeviceModel::kernel_demand(const Cost& cost) const {
  Demand demand;
  demand.shares = {cost.flops / profile.flops * kNanoseconds,
                   cost.bytes / profile.memory_bandwidth * kNanoseconds,
                   cost.host_read / profile.host_to_device * kNanoseconds,
                   cost.host_written / profile.device_to_host * kNanoseconds};
  demand.fixed = static_cast<double>(cost.fixed.count());
  demand.shared = *std::max_element(demand.shares.begin(), demand.shares.end());
  if (demand.shared > 0) {
    for (double& share : demand.shares) share /= demand.shared;
  }
  const auto minimum = static_cast<double>(profile.minimum_kernel.count());
  demand.fixed += std::max(0.0, minimum - demand.fixed - demand.shared);
  return demand;
}

Demand DeviceModel::copy_demand(std::size_t bytes, double bandwidth) const {
  Demand demand;
  demand.fixed = static_cast<double>(profile.copy_latency.count()) +
                 static_cast<double>(bytes) / bandwidth * kNanoseconds;
  return demand;
}

Demand DeviceModel::local_copy_demand(std::size_t bytes) const {
  constexpr std::size_t kBandwidth = 1;
  Demand demand =
      kernel_demand({.flops = 0, .bytes = 2.0 * static_cast<double>(bytes), .fixed = {}});
  const double copied = static_cast<double>(bytes) / profile.device_to_device * kNanoseconds;
  if (copied > demand.shared) {
    demand.fixed = std::max(0.0, demand.fixed - (copied - demand.shared));
    demand.shares[kBandwidth] = demand.shared / copied;
    demand.shared = copied;
  }
  return demand;
}

Demand DeviceModel::fill_demand(std::size_t bytes) const {
  return kernel_demand({.flops = 0, .bytes = static_cast<double>(bytes), .fixed = {}});
}

void DeviceModel::start_callback_actor() {
  if (callback_actor_ != nullptr) return;
  callback_actor_ = &machine.actors.spawn_service(fmt::format("callbacks of device {}", ordinal),
                                                  [this] { run_callbacks(); });
}

void DeviceModel::add_callback(std::shared_ptr<WorkItem> item, Nanoseconds when) {
  callbacks_.emplace_back(std::move(item), when);
  if (std::exchange(callback_actor_idles_, false)) machine.actors.wake(*callback_actor_, when);
}

void DeviceModel::run_callbacks() {
  Actor& me = machine.actors.current();
  for (;;) {
    while (callbacks_.empty()) {
      callback_actor_idles_ = true;
      machine.actors.block(me, "a callback");
    }
    const auto [item, when] = std::move(callbacks_.front());
    callbacks_.pop_front();
    machine.actors.charge(std::max(Nanoseconds{0}, when - me.clock));
    machine.begin(*item, me.clock);
    try {
      if (const auto function = std::exchange(item->effect, nullptr)) function();
    } catch (const ActorCanceled&) {
      throw;
    } catch (...) {
      lose(fmt::format("a callback on stream {} threw", item->stream->name));
    }
    machine.schedule->called_back(*item, me.clock);
  }
}

void DeviceModel::lose(const std::string& why) {
  if (lost_.empty()) lost_ = why;
}

}  // namespace millrace::simulation
