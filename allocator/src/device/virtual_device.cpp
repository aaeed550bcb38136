#include "millrace/device/virtual_device.hpp"

#include <fmt/format.h>

#include <utility>

#include "device/virtual/device_model.hpp"
#include "device/virtual/machine.hpp"
#include "device/virtual/work_items.hpp"

namespace millrace {
namespace {

using simulation::Copy;
using simulation::copy_item;
using simulation::EventState;
using simulation::kernel_item;
using simulation::make_item;
using simulation::StreamState;
using simulation::WorkItem;

using Kind = WorkItem::Kind;

[[noreturn]] void refuse(Call call, const std::string& detail,
                         ErrorCode code = ErrorCode::invalid_argument) {
  throw DeviceError(code, to_string(call), detail);
}

[[noreturn]] void refuse_size(Call call, std::size_t asked, std::size_t free) {
  refuse(call, fmt::format("asked for {} bytes, {} are free", asked, free),
         ErrorCode::out_of_memory);
}

[[noreturn]] void refuse_address(Call call, const void* address) {
  refuse(call, fmt::format("nothing is allocated at {:#x} (freed already?)",
                           reinterpret_cast<std::uintptr_t>(address)));
}

void refuse_nothing(Call call, std::size_t bytes) {
  if (bytes == 0) refuse(call, "asked for 0 bytes");
}

void refuse_pieces(Call call, std::size_t bytes, std::size_t page) {
  refuse_nothing(call, bytes);
  if (bytes % page != 0) {
    refuse(call, fmt::format("{} bytes are not whole pages of {} bytes", bytes, page));
  }
}

std::vector<std::shared_ptr<WorkItem>> last_item(const StreamState& stream) {
  if (stream.queue.empty()) return {};
  return {stream.queue.back()};
}

std::vector<std::shared_ptr<WorkItem>> recorded_item(const EventState& event) {
  if (event.recorded == nullptr) return {};
  return {event.recorded};
}

}  // namespace

/*
 * Each `do_` function proceeds in this order, like a driver:
 *   1. `enter` charges the call's host time and refuses every call on a lost device. So a call that
 *      fails takes time as well, and a lost device is reported for any arguments. `enter_enqueue`
 *      also waits for room in the launch queue.
 *   2. The arguments are checked before the call changes anything: a call that throws has done
 *      nothing, which Device promises. `do_free` checks its address before it waits for the device,
 *      and again after that, since another actor may have freed the block meanwhile.
 */

Gate::Gate(simulation::Machine& machine, std::shared_ptr<WorkItem> operation)
    : machine_(&machine), operation_(std::move(operation)) {}

void Gate::open() { machine_->open(*operation_); }

VirtualDevice::VirtualDevice(std::unique_ptr<simulation::DeviceModel> model)
    : model_(std::move(model)) {}

VirtualDevice::~VirtualDevice() = default;

std::string VirtualDevice::name() const { return "virtual:" + model_->profile.name; }

const DeviceProfile& VirtualDevice::profile() const noexcept { return model_->profile; }

unsigned VirtualDevice::ordinal() const noexcept { return model_->ordinal; }

std::size_t VirtualDevice::offset_of(const void* address) const {
  return model_->memory.offset(address);
}

Nanoseconds VirtualDevice::busy(Engine engine) const {
  return model_->busy.total(engine, model_->machine.actors.now());
}

std::size_t VirtualDevice::pending() const { return model_->pending; }

DriverPoolInfo VirtualDevice::pool_info() { return model_->pool.info(); }

void VirtualDevice::set_pool_policy(const DriverPoolPolicy& policy) {
  model_->pool.set_policy(policy);
}

// The pool's free segments are memory of the device that no program owns. So this call and `do_map`
// trim the pool before they report that the device has no memory.
void* VirtualDevice::do_allocate(std::size_t bytes) {
  model_->enter(Call::allocate);
  refuse_nothing(Call::allocate, bytes);
  void* address = model_->memory.allocate(bytes);
  if (address == nullptr) {
    model_->pool.trim(0);
    address = model_->memory.allocate(bytes);
  }
  const simulation::DeviceMemory& memory = model_->memory;
  if (address == nullptr) refuse_size(Call::allocate, bytes, memory.total() - memory.used());
  return address;
}

void VirtualDevice::do_free(void* address) {
  model_->enter(Call::free);
  if (address == nullptr) return;
  const bool pooled = model_->pool.owns(address);
  if (!pooled && !model_->memory.starts(address)) refuse_address(Call::free, address);
  if (model_->profile.free_synchronizes) {
    model_->machine.await(model_->last_items(), "a free");
    model_->synchronized(Call::free);
  }
  if (pooled) {
    // No work item: a free at host time orders nothing, and every stream may have the range at
    // once. (The call has waited for all work. If the profile's free does not wait, the program has
    // to.) The pool then ignores the stream. The legacy stream is passed because it always exists.
    model_->pool.free(address, model_->stream(legacy_stream(), Call::free), nullptr);
  } else if (model_->memory.free(address) == 0) {
    refuse_address(Call::free, address);
  }
}

void* VirtualDevice::do_allocate_host(std::size_t bytes) {
  const double seconds = static_cast<double>(bytes) / model_->profile.pinning;
  model_->enter(Call::allocate_host, Nanoseconds{static_cast<Nanoseconds::rep>(seconds * 1e9)});
  refuse_nothing(Call::allocate_host, bytes);
  simulation::PinnedMemory& pinned = model_->machine.pinned;
  void* const address = pinned.allocate(bytes);
  if (address == nullptr) refuse_size(Call::allocate_host, bytes, pinned.free_bytes());
  return address;
}

void VirtualDevice::do_free_host(void* address) {
  model_->enter(Call::free_host);
  if (address == nullptr) return;
  if (model_->machine.pinned.free(address) == 0) refuse_address(Call::free_host, address);
}

MemoryInfo VirtualDevice::do_memory_info() {
  model_->enter(Call::memory_info);
  const simulation::DeviceMemory& memory = model_->memory;
  return {memory.total() - memory.used(), memory.total()};
}

std::size_t VirtualDevice::page_bytes() const { return model_->page_bytes; }

void* VirtualDevice::do_reserve_range(std::size_t bytes) {
  model_->enter(Call::reserve_range);
  refuse_pieces(Call::reserve_range, bytes, page_bytes());
  void* const base = model_->memory.reserve(bytes);
  if (base == nullptr) {
    refuse(Call::reserve_range, fmt::format("no {} addresses in one piece are free", bytes),
           ErrorCode::out_of_memory);
  }
  return base;
}

void VirtualDevice::do_release_range(void* base, std::size_t bytes) {
  model_->enter(Call::release_range);
  const simulation::GrowableRange* const range = model_->memory.range_at(base);
  if (range == nullptr || range->addresses.size() != bytes) {
    refuse(Call::release_range, "no range of that size begins there");
  }
  if (!range->mapped.pieces().empty()) {
    refuse(Call::release_range, "memory is mapped in the range");
  }
  model_->memory.release(base);
}

simulation::GrowableRange& VirtualDevice::range_with(const void* address, std::size_t bytes,
                                                     Call call) {
  simulation::GrowableRange* const range = model_->memory.range_of(address, bytes);
  if (range == nullptr) refuse(call, "the addresses are not of one range");
  refuse_pieces(call, bytes, page_bytes());
  refuse_pieces(call, range->addresses.offset(address) + bytes, page_bytes());
  return *range;
}

void VirtualDevice::do_map(void* address, std::size_t bytes) {
  model_->enter(Call::map, model_->mapping_time(bytes));
  simulation::GrowableRange& range = range_with(address, bytes, Call::map);
  simulation::DeviceMemory& memory = model_->memory;
  if (bytes > memory.total() - memory.used()) model_->pool.trim(0);
  const std::size_t free = memory.total() - memory.used();
  if (bytes > free) refuse_size(Call::map, bytes, free);
  if (!memory.map(range, address, bytes)) {
    refuse(Call::map, "memory is mapped at some of the addresses");
  }
}

void VirtualDevice::do_unmap(void* address, std::size_t bytes) {
  model_->enter(Call::unmap, model_->mapping_time(bytes));
  simulation::GrowableRange& range = range_with(address, bytes, Call::unmap);
  if (!model_->memory.unmap(range, address, bytes)) {
    refuse(Call::unmap, "nothing is mapped at some of the addresses");
  }
}

void VirtualDevice::do_alias(void* to, void* from, std::size_t bytes) {
  model_->enter(Call::map, model_->alias_time(bytes));
  simulation::GrowableRange& range = range_with(to, bytes, Call::map);
  const simulation::GrowableRange& source = range_with(from, bytes, Call::map);
  if (!model_->memory.holds(from, bytes)) {
    refuse(Call::map, "nothing is mapped at some of the addresses");
  }
  if (!model_->memory.alias(range, to, source, from, bytes)) {
    refuse(Call::map, "memory is mapped at some of the addresses");
  }
}

void* VirtualDevice::do_allocate_async(std::size_t bytes, StreamHandle handle) {
  model_->enter_enqueue(Call::allocate_async);
  refuse_nothing(Call::allocate_async, bytes);
  StreamState& stream = model_->working_stream(handle, Call::allocate_async);
  auto grant = model_->pool.allocate(bytes, stream);
  const simulation::DeviceMemory& memory = model_->memory;
  if (grant.address == nullptr) {
    refuse_size(Call::allocate_async, bytes, memory.total() - memory.used());
  }
  auto item = make_item(Kind::pool, "allocate_async");
  item->after = std::move(grant.after);
  model_->enqueue(stream, std::move(item));
  return grant.address;
}

void VirtualDevice::do_free_async(void* address, StreamHandle handle) {
  model_->enter_enqueue(Call::free_async);
  StreamState& stream = model_->working_stream(handle, Call::free_async);
  if (address == nullptr) return;
  if (!model_->pool.owns(address)) refuse_address(Call::free_async, address);
  model_->pool.free(address, stream, model_->enqueue(stream, make_item(Kind::pool, "free_async")));
}

void VirtualDevice::do_trim_pool(std::size_t keep_bytes) {
  model_->enter(Call::trim_pool);
  model_->pool.trim(keep_bytes);
}

StreamHandle VirtualDevice::do_create_stream(const StreamOptions& options) {
  model_->enter(Call::create_stream);
  return model_->add_stream(options);
}

void VirtualDevice::do_destroy_stream(StreamHandle stream) {
  model_->enter(Call::destroy_stream);
  model_->destroy_stream(stream);
}

StreamHandle VirtualDevice::per_thread_stream() {
  return {reinterpret_cast<void*>(simulation::kPerThreadHandle)};
}

std::uint64_t VirtualDevice::do_stream_id(StreamHandle stream) {
  model_->enter(Call::stream_id);
  const simulation::StreamState& found = model_->stream(stream, Call::stream_id);
  // The id of the legacy stream is known. A driver refuses this call for a captured stream, and
  // invalidates the capture.
  if (!found.legacy) model_->refuse_captured(found, Call::stream_id);
  return found.id;
}

bool VirtualDevice::do_blocking(StreamHandle stream) {
  model_->enter(Call::stream_flags);
  return model_->stream(stream, Call::stream_flags).blocking;
}

CaptureStatus VirtualDevice::do_capture_status(StreamHandle stream) {
  model_->enter(Call::capture_status);
  return model_->capture_status(model_->stream(stream, Call::capture_status));
}

void VirtualDevice::set_capture_status(StreamHandle stream, CaptureStatus status) {
  simulation::StreamState& found = model_->stream(stream, Call::capture_status);
  if (found.legacy && status != CaptureStatus::none) {
    refuse(Call::capture_status, "the legacy stream cannot be captured");
  }
  if (!found.legacy && status == CaptureStatus::blocked) {
    refuse(Call::capture_status, "only the legacy stream can be blocked by a capture");
  }
  found.capture = status;
}

bool VirtualDevice::do_query(StreamHandle stream) {
  model_->enter(Call::query_stream);
  const auto items = last_item(model_->working_stream(stream, Call::query_stream));
  return model_->machine.schedule->answer(items);
}

void VirtualDevice::do_synchronize(StreamHandle handle) {
  model_->enter(Call::synchronize_stream);
  const StreamState& stream = model_->working_stream(handle, Call::synchronize_stream);
  model_->machine.await(last_item(stream), fmt::format("stream {}", stream.name));
  model_->synchronized(Call::synchronize_stream);
}

void VirtualDevice::do_synchronize() {
  model_->enter(Call::synchronize_device);
  model_->refuse_any_capture(Call::synchronize_device);
  model_->machine.await(model_->last_items(), name());
  model_->synchronized(Call::synchronize_device);
}

EventHandle VirtualDevice::do_create_event(bool timed) {
  model_->enter(Call::create_event);
  auto event = std::make_unique<EventState>();
  event->device = model_.get();
  event->timed = timed;
  return {model_->machine.event_handles.add(std::move(event))};
}

void VirtualDevice::do_destroy_event(EventHandle event) {
  model_->enter(Call::destroy_event);
  (void)model_->event(event, Call::destroy_event);
  model_->machine.event_handles.remove(event.value);
}

void VirtualDevice::do_record(EventHandle handle, StreamHandle on) {
  model_->enter_enqueue(Call::record);
  StreamState& stream = model_->working_stream(on, Call::record);
  EventState& event = model_->event(handle, Call::record);
  if (event.device != model_.get()) refuse(Call::record, "the event belongs to another device");
  auto item = make_item(Kind::record, "record");
  item->demand.fixed = static_cast<double>(model_->profile.record_latency.count());
  event.recorded = model_->enqueue(stream, std::move(item));
  event.frees_before = stream.frees_before;
}

void VirtualDevice::do_wait(StreamHandle on, EventHandle handle) {
  model_->enter_enqueue(Call::wait);
  StreamState& stream = model_->working_stream(on, Call::wait);
  const EventState& event = model_->event(handle, Call::wait);
  if (event.recorded == nullptr) return;
  auto item = make_item(Kind::wait, "wait");
  item->after.push_back(event.recorded);
  simulation::join(stream.frees_before, event.frees_before);
  model_->enqueue(stream, std::move(item));
}

bool VirtualDevice::do_query(EventHandle event) {
  model_->enter(Call::query_event);
  const auto items = recorded_item(model_->event(event, Call::query_event));
  return model_->machine.schedule->answer(items);
}

void VirtualDevice::do_synchronize(EventHandle event) {
  model_->enter(Call::synchronize_event);
  const auto items = recorded_item(model_->event(event, Call::synchronize_event));
  model_->machine.await(items, "an event");
  model_->synchronized(Call::synchronize_event);
}

Nanoseconds VirtualDevice::do_event_time(EventHandle handle) {
  model_->enter(Call::event_time);
  const EventState& event = model_->event(handle, Call::event_time);
  if (!event.timed) refuse(Call::event_time, "the event was not created as a timed one");
  if (event.recorded == nullptr) refuse(Call::event_time, "the event was never recorded");
  if (!event.recorded->done()) refuse(Call::event_time, "the event is not complete");
  return event.recorded->end;
}

void VirtualDevice::do_copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
                            StreamHandle handle) {
  model_->enter_enqueue(Call::copy);
  StreamState& stream = model_->working_stream(handle, Call::copy);
  if (bytes == 0) return;
  const Copy copy{to, from, bytes, kind};
  const auto item = model_->enqueue(stream, copy_item(*model_, copy));
  if (!pageable(*model_, copy)) return;
  model_->machine.await({&item, 1}, "a copy of pageable memory");
}

void VirtualDevice::do_fill(void* address, unsigned char value, std::size_t bytes,
                            StreamHandle handle) {
  model_->enter_enqueue(Call::fill);
  StreamState& stream = model_->working_stream(handle, Call::fill);
  if (bytes == 0) return;
  model_->enqueue(stream, fill_item(*model_, {address, bytes, Access::write}, value));
}

void VirtualDevice::do_launch(Operation operation, StreamHandle handle) {
  model_->enter_enqueue(Call::launch);
  StreamState& stream = model_->working_stream(handle, Call::launch);
  const bool meets = operation.meeting != nullptr;
  model_->enqueue(stream, meets ? simulation::meeting_item(*model_, std::move(operation))
                                : kernel_item(*model_, std::move(operation)));
}

void VirtualDevice::do_callback(StreamHandle handle, std::function<void()> function,
                                std::uint64_t) {
  model_->enter_enqueue(Call::callback);
  StreamState& stream = model_->working_stream(handle, Call::callback);
  model_->start_callback_actor();
  auto item = make_item(Kind::callback, "callback", Engine::host);
  item->effect = std::move(function);
  model_->enqueue(stream, std::move(item));
}

Gate VirtualDevice::enqueue_gate(StreamHandle handle) {
  model_->enter_enqueue(Call::launch);
  StreamState& stream = model_->working_stream(handle, Call::launch);
  return {model_->machine, model_->enqueue(stream, make_item(Kind::gate, "gate"))};
}

}  // namespace millrace
