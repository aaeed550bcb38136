#include "millrace/interop/device_memory.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "interop/attached_handles.hpp"
#include "interop/debug_settings.hpp"
#include "interop/debugged_memory.hpp"
#include "interop/forks.hpp"
#include "interop/history.hpp"
#include "interop/plain_streams.hpp"
#include "millrace/device/cuda_device.hpp"
#include "millrace/memory/capture_detector.hpp"
#include "millrace/observe/trace_snapshot.hpp"

namespace millrace {
namespace {

DebugSettings settings_for(const DeviceMemory::Options& options) {
  DebugSettings settings;
  if (options.reads_environment) settings = DebugSettings::of_environment();
  settings.notify_tools = settings.notify_tools || options.notify_tools;
  settings.poison = settings.poison || options.poison;
  return settings;
}

}  // namespace

struct DeviceMemory::State {
  State(std::unique_ptr<Device> made, Device& on, int id, const Options& options,
        const DebugSettings& debug)
      : own_device(std::move(made)),
        order(on, options.completion),
        device_source(on),
        source(source_for(options, debug)),
        caching(order, source, options.policy, options.limits),
        device_id(id) {
    if (options.find_captures) detector.emplace(caching, GraphPool{caching});
    Allocator& inner = detector ? static_cast<Allocator&>(*detector) : caching;
    plain.emplace(caching, inner, options.find_captures);
    serves = &*plain;
    if (notes || debug.poison)
      serves = &debugged.emplace(caching, *plain, notes ? &*notes : nullptr, debug.poison);
  }

  [[nodiscard]] SegmentSource& source_for(const Options& options, const DebugSettings& debug) {
    SegmentSource& given = options.source == nullptr ? device_source : *options.source;
    if (!debug.notify_tools) return given;
    return noted.emplace(given, notes.emplace());
  }

  /** The device, in this process. */
  [[nodiscard]] OrderedDevice& ordered_device() {
    static_cast<void>(serving());
    return order;
  }

  [[nodiscard]] bool is_in_child() const noexcept { return forks() != forks_before; }

  /** What serves, in this process. */
  [[nodiscard]] Allocator& serving() {
    if (is_in_child()) [[unlikely]] {
      throw DeviceError{ErrorCode::device_lost, "DeviceMemory",
                        "this process was forked from the one that made it; CUDA works again in a "
                        "program that exec starts"};
    }
    return *serves;
  }

  /** Nothing in a forked child: there is nothing to give back, and a destructor may ask for it. */
  [[nodiscard]] Allocator* freeing() noexcept { return is_in_child() ? nullptr : serves; }

  std::unique_ptr<Device> own_device;
  OrderedDevice order;
  DeviceSource device_source;
  std::optional<ToolNotes> notes;
  std::optional<NotedSource> noted;
  SegmentSource& source;
  CachingAllocator caching;
  AttachedHandles attached;
  std::optional<CaptureDetector> detector;
  std::optional<PlainStreams> plain;
  std::optional<DebuggedMemory> debugged;
  Allocator* serves = nullptr;
  std::mutex history_mutex;  // protects the members below; no observer locks it
  std::unique_ptr<interop::History> history;
  AllocationObserver* observer = nullptr;  // the program's
  const int device_id;
  const std::uint32_t forks_before = forks();
};

Policy DeviceMemory::drop_in() {
  Policy policy = Policy::millrace();
  policy.name = "drop-in";
  policy.sharing = Sharing::ordered;
  return policy;
}

DeviceMemory::DeviceMemory(int device_id) : DeviceMemory(device_id, Options{}) {}

DeviceMemory::DeviceMemory(int device_id, const Options& options) {
  const DebugSettings debug = settings_for(options);
  std::unique_ptr<Device> device = CudaDevice::create(device_id);
  Device& on = *device;
  state_ = std::make_unique<State>(std::move(device), on, device_id, options, debug);
}

DeviceMemory::DeviceMemory(Device& device, int device_id, const Options& options)
    : state_(std::make_unique<State>(nullptr, device, device_id, options, settings_for(options))) {}

DeviceMemory::~DeviceMemory() {
  // In a forked child, threads that do not exist there may hold locks.
  if (state_->is_in_child()) static_cast<void>(state_.release());
}

int DeviceMemory::device_id() const noexcept { return state_->device_id; }
CachingAllocator& DeviceMemory::caching() noexcept { return state_->caching; }
OrderedDevice& DeviceMemory::device() const noexcept { return state_->order; }

void* DeviceMemory::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) {
  const bool same = owner.handle() == first_user.handle() && owner.id() == first_user.id();
  owner = state_->attached.find(owner);
  first_user = same ? owner : state_->attached.find(first_user);
  return state_->serving().allocate(bytes, owner, first_user, tag);
}

void DeviceMemory::deallocate(void* address) {
  if (Allocator* const freeing = state_->freeing()) freeing->deallocate(address);
}

void DeviceMemory::deallocate(void* address, StreamRef stream) {
  Allocator* const freeing = state_->freeing();
  if (freeing != nullptr) freeing->deallocate(address, state_->attached.find(stream));
}

void DeviceMemory::deallocate(void* address, Point marker) {
  if (Allocator* const freeing = state_->freeing()) freeing->deallocate(address, marker);
}

void DeviceMemory::record_use(void* address, StreamRef stream) {
  state_->serving().record_use(address, state_->attached.find(stream));
}

void DeviceMemory::transfer(void* address, StreamRef new_owner) {
  state_->serving().transfer(address, state_->attached.find(new_owner));
}

StreamRef DeviceMemory::attach(StreamHandle stream, AttachOptions options) {
  const StreamRef attached = state_->ordered_device().attach(stream, std::move(options));
  state_->attached.add(attached);
  return attached;
}

void DeviceMemory::detach(StreamRef stream) {
  OrderedDevice& order = state_->ordered_device();
  stream = state_->attached.find(stream);
  state_->attached.remove(stream);
  order.detach(stream);
}

Point DeviceMemory::mark(StreamRef stream) {
  return state_->ordered_device().mark(state_->attached.find(stream));
}

void DeviceMemory::record(EventHandle event, StreamRef stream) {
  state_->ordered_device().record(event, state_->attached.find(stream));
}

void DeviceMemory::wait(StreamRef stream, EventHandle event) {
  state_->ordered_device().wait(state_->attached.find(stream), event);
}

void DeviceMemory::forget(EventHandle event) { state_->ordered_device().forget(event); }

void DeviceMemory::synchronize(StreamRef stream) {
  state_->ordered_device().synchronize(state_->attached.find(stream));
}

bool DeviceMemory::is_live(const void* address) const { return state_->serving().is_live(address); }
std::size_t DeviceMemory::trim(std::size_t keep_bytes) {
  return state_->serving().trim(keep_bytes);
}
Tag DeviceMemory::tag(std::string_view name) { return state_->serving().tag(name); }
MemoryStatistics DeviceMemory::statistics() { return state_->serving().statistics(); }
UsableBytes DeviceMemory::usable(StreamRef stream) {
  return state_->serving().usable(state_->attached.find(stream));
}
ScopeId DeviceMemory::open_scope() { return state_->serving().open_scope(); }
MemoryGauges DeviceMemory::peaks(ScopeId scope) { return state_->serving().peaks(scope); }
void DeviceMemory::close_scope(ScopeId scope) { state_->serving().close_scope(scope); }

void DeviceMemory::observe(AllocationObserver* observer) {
  Allocator& serving = state_->serving();
  const std::lock_guard lock{state_->history_mutex};
  state_->observer = observer;
  if (state_->history != nullptr) return state_->history->pass_on_to(observer);
  serving.observe(observer);
}

void DeviceMemory::record_history(const History& history) {
  static_cast<void>(state_->serving());
  const std::lock_guard lock{state_->history_mutex};
  if (history.allocations == 0) {
    state_->caching.observe(state_->observer);
    state_->history = nullptr;
    return;
  }
  auto made = std::make_unique<interop::History>(history.allocations, history.stack_frames);
  made->pass_on_to(state_->observer);
  {
    const interop::History::Reporting reporting;
    state_->caching.observe_all(*made);
  }
  state_->history = std::move(made);  // the former one gets no more events
}

void DeviceMemory::annotate(std::string name) {
  static_cast<void>(state_->serving());
  const std::lock_guard lock{state_->history_mutex};
  if (state_->history != nullptr) state_->history->annotate(std::move(name));
}

trace::TorchSnapshot DeviceMemory::snapshot() {
  static_cast<void>(state_->serving());
  const auto device = static_cast<std::uint32_t>(state_->device_id);
  const std::lock_guard lock{state_->history_mutex};
  const SnapshotOptions options{.stream =
                                    [this](StreamId stream) {
                                      const bool legacy =
                                          state_->order.ledger().traits(stream).legacy;
                                      return legacy ? 0 : std::int64_t{stream.slot} + 1;
                                    },
                                .growable_ranges = state_->caching.policy().growable_ranges};
  if (state_->history != nullptr) return state_->history->snapshot(device, options);
  AllocationTrace present;  // the present segments and blocks, without the events before
  state_->caching.report_all(present);
  trace::TorchSnapshot snapshot = torch_snapshot(present, device, options);
  snapshot.traces.back().clear();
  return snapshot;
}

}  // namespace millrace
