#include "test/property/world.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "millrace/memory/driver_allocator.hpp"
#include "millrace/observe/conflict_graph.hpp"

namespace millrace::test {

namespace {

VirtualDevice::Options device_options(const Setup& setup) {
  VirtualDevice::Options options;
  options.memory_bytes = setup.memory_bytes;
  return options;
}

/** Ignores an error, because the stream is detached nevertheless. */
void detach_quietly(OrderedDevice& ordered, StreamRef stream) {
  const InLibrary in_library;
  try {
    ordered.detach(stream);
  } catch (const DeviceError&) {
  }
}

}  // namespace

/** The presets, with segments that fit a device of a few megabytes. */
Policy small_policy(Preset preset) {
  if (preset == Preset::torch) return Policy::torch();
  if (preset == Preset::pinned) return Policy::pinned();
  Policy policy = Policy::millrace();
  policy.large_segment_least = std::size_t{8} << 20;
  policy.large_segment_most = std::size_t{16} << 20;
  if (preset == Preset::waiting) policy.spare_bursts = -1e9;
  if (preset == Preset::ordered || preset == Preset::drop_in) {
    policy.name = "ordered";
    policy.sharing = Sharing::ordered;
  }
  return policy;
}

bool IndependenceWatch::independent(StreamHandle stream) const {
  return std::ranges::find(independent_, stream) != independent_.end();
}

void IndependenceWatch::recorded(EventHandle event, StreamHandle stream) {
  std::erase(recorded_there_, event);
  if (independent(stream)) recorded_there_.push_back(event);
}

void IndependenceWatch::waited(StreamHandle stream, EventHandle event) {
  const bool for_independent = std::ranges::find(recorded_there_, event) != recorded_there_.end();
  if (InAllocator::now() && (independent(stream) || for_independent)) ++violations;
}

World::World(const Setup& given, Flaw flaw) : World(given, flaw, nullptr, nullptr) {}

World::World(const Setup& given, Device& gpu, ContentKernels& of_gpu)
    : World(given, Flaw::none, &gpu, &of_gpu) {}

World::World(const Setup& given, Flaw flaw, Device* gpu, ContentKernels* of_gpu)
    : setup(given),
      machine({.schedule = setup.schedule, .seed = setup.seed, .host_memory = setup.memory_bytes}),
      modeled(machine.add_device(device_options(setup))),
      device(gpu == nullptr ? modeled : *gpu),
      kernels(of_gpu),
      door(modeled),
      way(gpu == nullptr ? door : *gpu),
      ordered(way) {
  if (kernels == nullptr) {
    checker.attach(device);
    checker.attach(machine.executor());
  } else {
    corrupted_before_ = kernels->findings().corrupted;
    if (setup.limit_bytes == 0) setup.limit_bytes = setup.memory_bytes;  // a GPU has more memory
  }
  device.add_observer(faults);
  device.add_observer(independence);
  if (flaw == Flaw::drops_waits) door.leave_out_waits_if(InAllocator::now);
  if (flaw == Flaw::believes_in_speed) door.say_yes_to_queries();
  make_allocator(flaw);
  bool has_legacy = false;
  for (const LaneKind kind : setup.lanes) {
    const bool second_legacy = kind == LaneKind::legacy && std::exchange(has_legacy, true);
    lanes.push_back(std::make_unique<Lane>(
        Lane{.kind = second_legacy ? LaneKind::plain : kind, .index = lanes.size()}));
    places_.push_back(lanes.back()->index);
    open(*lanes.back());
  }
}

void World::make_allocator(Flaw flaw) {
  if (setup.preset == Preset::driver) {
    tested = std::make_unique<DriverAllocator>(ordered);
  } else {
    if (host_memory()) {
      driver_source = std::make_unique<PinnedSource>(way);
    } else {
      driver_source = std::make_unique<DeviceSource>(way);
    }
    source = std::make_unique<WatchedSource>(*driver_source, flaw != Flaw::none);
    auto made = std::make_unique<CachingAllocator>(ordered, *source, small_policy(setup.preset),
                                                   MemoryLimits{.limit = setup.limit_bytes});
    caching = made.get();
    tested = std::move(made);
  }
  tested->observe(&trace);
  if (setup.preset == Preset::drop_in) {
    plain = std::make_unique<PlainStreams>(*caching, *caching, false);
  }
  allocator = std::make_unique<FlawedAllocator>(plain == nullptr ? *tested : *plain, flaw);
}

World::~World() {
  try {
    drain();
  } catch (const DeviceError&) {  // a kernel used unmapped memory; the test has seen it
  }
  tested.reset();
  if (kernels != nullptr) close_raw_streams();
  device.remove_observer(faults);
  device.remove_observer(independence);
}

// Only for a GPU: a virtual device's streams are destroyed with its machine.
void World::close_raw_streams() {
  for (const auto& lane : lanes) {
    if (lane->kind != LaneKind::raw || !lane->alive) continue;
    if (lane->attached) detach_quietly(ordered, lane->ref);
    device.destroy_stream(lane->handle);
  }
}

void World::drain() {
  faults.suspend(true);
  device.synchronize();
  faults.suspend(false);
}

Lane& World::lane_at(std::size_t place) { return *lanes[places_[place % places_.size()]]; }

void World::open(Lane& lane) {
  const StreamOptions options{.blocking = lane.kind == LaneKind::blocking,
                              .priority = 0,
                              .name = "lane " + std::to_string(lane.index)};
  switch (lane.kind) {
    case LaneKind::legacy:
      lane.handle = device.legacy_stream();
      lane.ref = ordered.attach(lane.handle, {.name = options.name});
      return;
    case LaneKind::raw:
      lane.handle = device.create_stream(options);
      lane.ref = lane.handle;
      lane.attached = false;
      return;
    case LaneKind::independent:
    case LaneKind::blocking:
    case LaneKind::plain:
      lane.owned = std::make_unique<Stream>(ordered, options, lane.kind == LaneKind::independent);
      lane.handle = lane.owned->handle();
      lane.ref = *lane.owned;
      if (lane.kind == LaneKind::independent) independence.declare(lane.handle);
      return;
  }
}

void World::renew(std::size_t place) {
  Lane& old = lane_at(place);
  if (old.kind == LaneKind::legacy) return;
  leave(old);
  if (old.kind == LaneKind::independent) independence.retract(old.handle);
  if (old.owned != nullptr) {
    const InLibrary in_library;
    old.owned.reset();
  } else {
    if (old.attached) detach_quietly(ordered, old.ref);
    device.destroy_stream(old.handle);
  }
  open(succeed(place));
}

void World::attach(std::size_t place) {
  Lane& lane = lane_at(place);
  lane.ref = ordered.attach(lane.handle);
  lane.attached = true;
}

void World::detach(std::size_t place) {
  Lane& old = lane_at(place);
  leave(old);
  detach_quietly(ordered, old.ref);
  Lane& lane = succeed(place);
  lane.handle = old.handle;
  lane.ref = old.handle;
  lane.attached = false;
  lane.after = old.after;
}

void World::leave(Lane& lane) {
  ordered.record(lane.last, lane.ref);
  lane.alive = false;
}

Lane& World::succeed(std::size_t place) {
  lanes.push_back(std::make_unique<Lane>(Lane{.kind = lane_at(place).kind, .index = lanes.size()}));
  places_[place % places_.size()] = lanes.back()->index;
  return *lanes.back();
}

std::size_t World::offset_of(const void* address) const {
  return host_memory() ? reinterpret_cast<std::uintptr_t>(address) : modeled.offset_of(address);
}

void World::gave_out(void* address, std::size_t requested, const Lane& user) {
  const std::size_t bytes = caching != nullptr ? caching->block_size(address) : requested;
  const auto fail = [&](const char* what) {
    throw std::logic_error{std::string{"law 1: "} + what};
  };
  if (bytes < requested) fail("a block is smaller than what was asked for");
  if (source != nullptr && !source->contains(address, bytes)) fail("a block is in no segment");
  if (reinterpret_cast<std::uintptr_t>(address) % 256 != 0) fail("a block is not aligned");
  const auto next = live.lower_bound(address);
  if (next != live.end() && static_cast<char*>(address) + bytes > next->first) {
    fail("a block overlaps the next one");
  }
  if (next != live.begin()) {
    const auto& [before, block] = *std::prev(next);
    if (static_cast<char*>(before) + block.bytes > address) fail("a block overlaps the one before");
  }
  live.emplace(address, LiveBlock{requested, bytes});
  if (kernels != nullptr || caching == nullptr) return;  // the device reports its pool itself
  if (host_memory()) {
    checker.allocated_for_host(address, bytes);
  } else {
    checker.allocated(address, bytes, device, user.handle);
  }
}

void World::takes_back(void* address) {
  live.erase(address);
  if (caching != nullptr && kernels == nullptr) checker.freed(address);
}

void World::check_sums() {
  const MemoryStatistics statistics = allocator->statistics();
  LiveBlock sum{0, 0};
  for (const auto& [address, block] : live) {
    sum.requested += block.requested;
    sum.bytes += block.bytes;
  }
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error{std::string{"law 1: "} + what};
  };
  const MemoryGauges& bytes = statistics.bytes;
  require(statistics.live_blocks == live.size(), "blocks are counted");
  require(bytes.requested.current == sum.requested, "requested is what was asked for");
  require(bytes.allocated.current <= bytes.active.current, "active is at least allocated");
  require(bytes.active.current + bytes.cached.current == bytes.reserved.current,
          "reserved is active and cached");
  require(bytes.reserved.current <= setup.memory_bytes, "no more is reserved than there is");
  if (caching == nullptr) return;
  caching->check_invariants();
  require(bytes.allocated.current == sum.bytes, "allocated is the sum of blocks");
  require(bytes.reserved.current == source->bytes(), "reserved is the sum of segments");
  require(setup.limit_bytes == 0 || bytes.reserved.peak <= setup.limit_bytes, "the limit is kept");
  for (const auto& [address, block] : live) {
    require(caching->block_size(address) == block.bytes, "live blocks stay as they were");
    require(source->contains(address, block.bytes), "live blocks are in segments");
  }
}

void World::check_order() const {
  if (!errors.empty()) throw std::logic_error{"law 2: " + errors.front()};
  if (kernels != nullptr && kernels->findings().corrupted > corrupted_before_) {
    throw std::logic_error{"law 2: a kernel found what another had written"};
  }
  if (independence.violations > 0) throw std::logic_error{"a wait with an independent stream"};
  const std::vector<RaceChecker::Race> races = checker.races();
  if (!races.empty()) throw std::logic_error{"law 2: " + races.front().message};
  if (caching == nullptr) return;  // the order in the driver's pool is not visible
  const auto rule = host_memory() ? ReuseRule::host_time : ReuseRule::enqueued_work;
  if (!find_illegal_reuse(trace, rule).empty()) {
    throw std::logic_error{"law 2: the trace shows memory given out too early"};
  }
}

bool Knowledge::covers(Moment moment) const {
  return moment.operation == 0 ||
         (moment.lane < last_.size() && last_[moment.lane] >= moment.operation);
}

void Knowledge::learn(Moment moment) {
  if (last_.size() <= moment.lane) last_.resize(moment.lane + 1);
  last_[moment.lane] = std::max(last_[moment.lane], moment.operation);
}

void Knowledge::learn(const Knowledge& other) {
  for (std::size_t lane = 0; lane < other.last_.size(); ++lane) learn({lane, other.last_[lane]});
}

}  // namespace millrace::test
