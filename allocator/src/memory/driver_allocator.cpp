#include "millrace/memory/driver_allocator.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/contract.hpp"
#include "memory/meter.hpp"

namespace millrace {
namespace {

constexpr std::size_t kGranule = 512;  // the driver's pool rounds sizes to multiples of this

}  // namespace

struct DriverAllocator::State {
  struct Live {
    std::uint64_t id;
    std::size_t requested;
    std::size_t bytes;
    StreamRef owner;
    std::vector<StreamRef> uses;
    Tag tag;
    FirstMarkers first_markers;
  };

  explicit State(OrderedDevice& d) : device(d) {}

  using LiveBlocks = std::unordered_map<void*, Live>;

  /** @brief Removes a block from the live ones. The node keeps it, so that it can be put back. */
  LiveBlocks::node_type take(void* address, std::optional<Point> marker = {}) {
    const std::lock_guard lock{mutex};
    const auto it = live.find(address);
    if (it == live.end()) refuse_address("deallocate", address);
    if (marker) it->second.first_markers.require_covered(*marker, address);
    return live.extract(it);
  }

  /** @brief A freed block that goes back to the driver only after `points` are complete. */
  struct Kept {
    void* address;
    std::size_t bytes;
    std::vector<Point> points;
  };

  bool keeps_any() {
    const std::lock_guard lock{mutex};
    return !kept.empty();
  }

  /** @return the bytes that the driver's pool has reserved now */
  std::size_t note_reserved() {
    // No lock is held across the driver call.
    const std::size_t now = device.device().pool_info().reserved;
    const std::lock_guard lock{mutex};
    if (now > reserved) meter.reserved(now - reserved);
    if (now < reserved) meter.released(reserved - now);
    reserved = now;
    return now;
  }

  void free(LiveBlocks::node_type taken, StreamRef stream, std::optional<Point> marker);
  void free(void* address, const Live& block, StreamRef stream, std::optional<Point> marker);
  void* give_out(void* address, std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag);
  bool order(StreamRef stream, const std::vector<Point>& points);
  void mark(StreamRef stream) noexcept;
  bool give_back(void* address, StreamRef stream) noexcept;
  void give_back_kept(StreamRef stream);

  OrderedDevice& device;
  std::mutex mutex;
  LiveBlocks live;
  Meter meter;
  std::list<Kept> kept;
  std::size_t reserved = 0;
  AllocationObserver* observer = nullptr;
  std::uint64_t next_id = 1;
};

DriverAllocator::DriverAllocator(OrderedDevice& device) : state_(std::make_unique<State>(device)) {
  if (!device.device().has_driver_pool()) {
    throw DeviceError{ErrorCode::not_supported, "DriverAllocator on " + device.device().name(),
                      "the device has no stream-ordered pool; use a CachingAllocator"};
  }
}

DriverAllocator::~DriverAllocator() {
  try {
    if (!state_->kept.empty()) trim(state_->reserved);
  } catch (const DeviceError&) {  // the device is lost, and its memory with it
  }
}

void* DriverAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) {
  if (bytes == 0) return nullptr;
  State& state = *state_;
  owner = state.device.resolve(owner);
  first_user = state.device.resolve(first_user);
  require_open("allocate", state.device, owner);
  require_open("allocate", state.device, first_user);
  {
    const std::lock_guard lock{state.mutex};
    if (!state.meter.known(tag)) {
      throw std::invalid_argument{"allocate: this tag is not one of this allocator's"};
    }
  }
  state.give_back_kept(first_user);
  void* address = nullptr;
  const auto ask = [&] { return state.device.device().allocate_async(bytes, first_user.handle()); };
  try {
    try {
      address = ask();
    } catch (const DeviceError& error) {
      if (error.code() != ErrorCode::out_of_memory || !state.keeps_any()) throw;
      trim();
      address = ask();
    }
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    const MemoryInfo info = state.device.device().memory_info();
    const std::lock_guard lock{state.mutex};
    ++state.meter.counts().out_of_memory;
    MemoryPicture seen;
    seen.requested = seen.rounded = bytes;
    seen.stream = state.device.name(first_user.id());
    seen.reserved = state.reserved;
    seen.allocated = state.meter.bytes().allocated.current;
    seen.device_free = info.free;
    seen.device_total = info.total;
    const std::size_t used = info.total - info.free;
    seen.held_by_others = used > seen.reserved ? used - seen.reserved : 0;
    throw out_of_memory{std::move(seen)};
  }
  try {
    return state.give_out(address, bytes, owner, first_user, tag);
  } catch (...) {  // no host memory for the record: the block goes back
    static_cast<void>(state.give_back(address, first_user));
    throw;
  }
}

void* DriverAllocator::State::give_out(void* address, std::size_t bytes, StreamRef owner,
                                       StreamRef first_user, Tag tag) {
  try {
    note_reserved();
  } catch (const DeviceError&) {  // the next call notes the change
  }
  const std::lock_guard lock{mutex};
  const std::size_t rounded = (bytes + kGranule - 1) / kGranule * kGranule;
  const Ledger& ledger = device.ledger();
  Live block{next_id++,
             bytes,
             rounded,
             owner,
             {},
             tag,
             FirstMarkers::now(ledger, owner.id(), first_user.id())};
  if (first_user.id() != owner.id()) block.uses.push_back(first_user);
  const auto known = live.emplace(address, std::move(block)).first;
  try {
    if (observer != nullptr) {
      const Frontier frontier = ledger.frontier(first_user.id());
      const Frontier completed = ledger.completed_frontier();
      observer->allocated({known->second.id, address, bytes, rounded, owner.id(), first_user.id(),
                           meter.name(tag), frontier, completed});
    }
    meter.allocated(bytes, rounded, owner.id(), tag);
  } catch (...) {
    live.erase(known);
    throw;
  }
  return address;
}

// If host memory runs out or an observer throws, the block is live again.
void DriverAllocator::State::free(LiveBlocks::node_type taken, StreamRef stream,
                                  std::optional<Point> marker) {
  try {
    free(taken.key(), taken.mapped(), stream, marker);
  } catch (...) {
    const std::lock_guard lock{mutex};
    live.insert(std::move(taken));
    throw;
  }
}

void DriverAllocator::State::free(void* address, const Live& block, StreamRef stream,
                                  std::optional<Point> marker) {
  const Ledger& ledger = device.ledger();
  // Each point is read before its stream is marked. Only then does the marker cover it.
  std::vector<Point> points{{stream.id(), ledger.next(stream.id())}};
  if (marker) {
    points.push_back(*marker);
  } else {
    for (const StreamRef use : block.uses) {
      if (use.id() == stream.id()) continue;
      points.push_back({use.id(), ledger.next(use.id())});
      if (ledger.is_open(use.id())) mark(use);
    }
  }
  const bool ordered = order(stream, points);
  if (ordered) points = {{stream.id(), ledger.next(stream.id())}};
  std::list<Kept> keeping;  // allocated now: after the report, nothing may fail
  keeping.push_back({address, block.bytes, {}});
  {  // reported first: once the driver has the block, another thread may get its address
    const std::lock_guard lock{mutex};
    if (observer != nullptr) observer->freed({block.id, address, block.bytes, points});
    meter.freed(block.requested, block.bytes, block.owner.id(), block.tag);
  }
  if (ordered && give_back(address, stream)) return;
  if (device.attached(stream.id())) mark(stream);
  keeping.front().points = std::move(points);
  const std::lock_guard lock{mutex};
  meter.draining(block.bytes);
  kept.splice(kept.end(), keeping);
}

// Makes `stream` wait for the points. Returns false if it cannot wait for one of them (an
// independent stream, for instance), or if nothing can be enqueued on it: in a host callback, on a
// destroyed stream, or on another thread's per-thread stream.
bool DriverAllocator::State::order(StreamRef stream, const std::vector<Point>& points) {
  if (in_host_callback() || !device.ledger().is_open(stream.id())) return false;
  try {
    if (device.resolve(stream).id() != stream.id()) return false;
    return std::ranges::all_of(points,
                               [&](const Point point) { return device.wait_for(stream, point); });
  } catch (const DeviceError&) {
    return false;
  }
}

void DriverAllocator::State::mark(StreamRef stream) noexcept {
  try {
    device.mark(stream);
  } catch (const std::exception&) {  // a later marker covers the same work
  }
}

bool DriverAllocator::State::give_back(void* address, StreamRef stream) noexcept {
  try {
    device.device().free_async(address, stream.handle());
  } catch (const DeviceError&) {  // the device is lost, or the stream is being captured
    return false;
  }
  try {
    note_reserved();
  } catch (const DeviceError&) {  // the next call notes the change
  }
  return true;
}

// Gives the complete kept blocks back to the driver. No work uses them any more, so they can be
// freed in the order of any stream.
void DriverAllocator::State::give_back_kept(StreamRef stream) {
  if (!keeps_any()) return;
  device.poll();
  std::list<Kept> complete;
  {
    const std::lock_guard lock{mutex};
    for (auto each = kept.begin(); each != kept.end();) {
      const auto next = std::next(each);
      const bool done = std::ranges::all_of(
          each->points, [&](const Point point) { return device.ledger().completed(point); });
      if (done) complete.splice(complete.end(), kept, each);
      each = next;
    }
  }
  // Another thread may have seen the completions: observers learn that this one comes after them.
  if (!complete.empty()) device.device().learn_completions();
  while (!complete.empty()) {
    const Kept& each = complete.front();
    const bool given = give_back(each.address, stream);
    const std::lock_guard lock{mutex};
    if (given) {
      meter.drained(each.bytes);
      complete.pop_front();
    } else {
      kept.splice(kept.end(), complete, complete.begin());
    }
  }
}

void DriverAllocator::deallocate(void* address) {
  if (address == nullptr) return;
  auto block = state_->take(address);
  const StreamRef owner = block.mapped().owner;
  state_->free(std::move(block), owner, {});
}

void DriverAllocator::deallocate(void* address, StreamRef stream) {
  if (address == nullptr) return;
  stream = state_->device.resolve(stream);
  state_->free(state_->take(address), stream, {});
}

void DriverAllocator::deallocate(void* address, Point marker) {
  if (address == nullptr) return;
  auto block = state_->take(address, marker);
  const StreamRef owner = block.mapped().owner;
  state_->free(std::move(block), owner, marker);
}

bool DriverAllocator::is_live(const void* address) const {
  const std::lock_guard lock{state_->mutex};
  return state_->live.contains(const_cast<void*>(address));
}

void DriverAllocator::record_use(void* address, StreamRef stream) {
  if (address == nullptr) return;
  stream = state_->device.resolve(stream);
  const std::lock_guard lock{state_->mutex};
  const auto it = state_->live.find(address);
  if (it == state_->live.end()) refuse_address("record_use", address);
  State::Live& block = it->second;
  const auto same = [&](const StreamRef use) { return use.id() == stream.id(); };
  if (same(block.owner) || std::ranges::any_of(block.uses, same)) return;
  block.uses.push_back(stream);
  if (state_->observer != nullptr) state_->observer->use_recorded(block.id, stream.id());
}

void DriverAllocator::transfer(void* address, StreamRef new_owner) {
  if (address == nullptr) return;
  new_owner = state_->device.resolve(new_owner);
  require_open("transfer", state_->device, new_owner);
  const std::lock_guard lock{state_->mutex};
  const auto it = state_->live.find(address);
  if (it == state_->live.end()) refuse_address("transfer", address);
  State::Live& block = it->second;
  if (block.owner.id() == new_owner.id()) return;
  std::erase_if(block.uses, [&](const StreamRef use) { return use.id() == new_owner.id(); });
  block.uses.push_back(block.owner);
  state_->meter.moved(block.bytes, block.owner.id(), new_owner.id());
  block.owner = new_owner;
}

std::size_t DriverAllocator::trim(std::size_t keep_bytes) {
  State& state = *state_;
  const std::size_t before = state.note_reserved();
  state.device.synchronize();
  state.give_back_kept(state.device.resolve(state.device.device().legacy_stream()));
  state.device.synchronize();
  state.device.device().trim_pool(keep_bytes);
  const std::size_t after = state.note_reserved();
  return before - std::min(before, after);  // another thread may have made the pool grow
}

Tag DriverAllocator::tag(std::string_view name) {
  const std::lock_guard lock{state_->mutex};
  return state_->meter.tag(name);
}

MemoryStatistics DriverAllocator::statistics() {
  state_->note_reserved();
  const std::lock_guard lock{state_->mutex};
  return state_->meter.statistics(state_->device);
}

// The driver's pool does not report which streams could use its free bytes, so all of them count as
// usable.
UsableBytes DriverAllocator::usable(StreamRef) {
  state_->note_reserved();
  const std::lock_guard lock{state_->mutex};
  const std::size_t cached = state_->meter.bytes().cached.current;
  return {.total = cached, .largest = cached, .stranded = 0};
}

ScopeId DriverAllocator::open_scope() {
  const std::lock_guard lock{state_->mutex};
  return state_->meter.open_scope();
}

MemoryGauges DriverAllocator::peaks(ScopeId scope) {
  const std::lock_guard lock{state_->mutex};
  return state_->meter.peaks(scope);
}

void DriverAllocator::close_scope(ScopeId scope) {
  const std::lock_guard lock{state_->mutex};
  state_->meter.close_scope(scope);
}

void DriverAllocator::observe(AllocationObserver* observer) {
  const std::lock_guard lock{state_->mutex};
  state_->observer = observer;
}

OrderedDevice& DriverAllocator::device() const noexcept { return state_->device; }

}  // namespace millrace
