#include "test/property/interpreter.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace millrace::test {

namespace {

std::size_t stride_of(std::size_t words) { return std::max<std::size_t>(64, words / 24); }

/** Calls `visit(word)` for words all over the buffer, including the first and the last one. */
template <typename Visit>
void for_each_sample(std::byte* data, std::size_t bytes, Visit visit) {
  const std::size_t words = bytes / sizeof(std::uint64_t);
  if (words == 0) return;
  for (std::size_t at = 0; at < words; at += stride_of(words))
    visit(data + at * sizeof(std::uint64_t));
  visit(data + (words - 1) * sizeof(std::uint64_t));
}

std::uint64_t content(std::uint64_t serial, std::uint64_t version) {
  return (serial << 20 | version) * 0x9E3779B97F4A7C15U;
}

void fill(std::byte* data, std::size_t bytes, std::uint64_t value) {
  for_each_sample(data, bytes, [&](std::byte* at) { std::memcpy(at, &value, sizeof value); });
}

bool holds(std::byte* data, std::size_t bytes, std::uint64_t value) {
  bool same = true;
  for_each_sample(data, bytes, [&](std::byte* at) {
    same = same && std::memcmp(at, &value, sizeof value) == 0;
  });
  return same;
}

}  // namespace

void Interpreter::run(const Step& step) {
  Lane& lane = world_.lane_at(step.stream);
  Lane& other = world_.lane_at(step.other);
  const bool any = !buffers_.empty();
  switch (step.kind) {
    case Step::allocate:
      allocate(lane, lane, step);
      break;
    case Step::allocate_for:
      allocate(lane, other, step);
      break;
    case Step::write:
    case Step::read:
      if (any) {
        use(buffers_[step.buffer % buffers_.size()], lane, step.kind == Step::write, step.choice);
      }
      break;
    case Step::record_use:
      if (any) {
        Buffer& buffer = buffers_[step.buffer % buffers_.size()];
        ask([&] { world_.allocator->record_use(buffer.address, lane.ref); });
        if (lane.index != buffer.owner) buffer.recorded.insert(lane.index);
      }
      break;
    case Step::transfer:
      if (any) transfer(buffers_[step.buffer % buffers_.size()], lane);
      break;
    case Step::free:
      if (any) free(take(step), lane, true);
      break;
    case Step::free_on:
      if (any) free(take(step), lane, false);
      break;
    case Step::free_behind:
      if (any) free_behind(take(step), lane);
      break;
    case Step::free_in_callback:
      if (any) free_in_callback(take(step), lane, other);
      break;
    case Step::mark:
      attempt([&] { static_cast<void>(world_.ordered.mark(lane.ref)); });
      break;
    case Step::order:
      order({other.index, other.operations}, lane, step.choice);
      break;
    case Step::synchronize:
      synchronize(lane);
      break;
    case Step::poll:
      attempt([&] { world_.ordered.poll(); });
      break;
    case Step::trim:
      ask([&] { world_.allocator->trim(std::size_t{step.choice} << 20); });
      break;
    case Step::renew_stream:
      renew(step.stream);
      break;
    case Step::attach:
      attach(step.stream);
      break;
    case Step::kinds_:
      break;
  }
  if (!shares_world) world_.check_sums();
}

Moment Interpreter::now(Lane& lane) {
  const Moment moment{lane.index, ++lane.operations};
  lane.after.learn(host_);
  lane.after.learn(moment);
  return moment;
}

void Interpreter::attempt(const std::function<void()>& call) {
  const InLibrary in_library;
  try {
    call();
  } catch (const DeviceError& error) {
    if (error.sticky()) throw;
    if (!shares_world) world_.check_sums();
    call();
  }
}

void Interpreter::ask(const std::function<void()>& call) {
  const InAllocator in_allocator;
  attempt(call);
}

void Interpreter::allocate(Lane& owner, Lane& user, const Step& step) {
  Buffer buffer{.address = nullptr,
                .bytes = step.bytes,
                .serial = ++world_.serial,
                .owner = owner.index,
                .given_out = {},
                .uses = {},
                .writes = {},
                .recorded = {}};
  try {
    ask([&] { buffer.address = world_.allocator->allocate(buffer.bytes, owner.ref, user.ref); });
  } catch (const out_of_memory& error) {
    const bool own_only = world_.setup.preset == Preset::torch || world_.caching == nullptr;
    if (!own_only && error.picture().largest_usable >= error.picture().rounded) {
      throw std::logic_error{std::string{"failed, though there was room: "} + error.what()};
    }
    return;
  }
  world_.gave_out(buffer.address, buffer.bytes, user);
  if (user.index != owner.index) buffer.recorded.insert(user.index);
  buffer.given_out = now(user);
  if (world_.host_memory()) {
    buffer.version = 1;
    if (world_.kernels == nullptr) {
      world_.checker.host_writes(buffer.address, buffer.bytes, "fill");
    }
    fill(static_cast<std::byte*>(buffer.address), buffer.bytes, content(buffer.serial, 1));
  } else if (step.choice % 4 != 0) {
    launch(buffer, user, true);
  }
  buffers_.push_back(std::move(buffer));
}

void Interpreter::use(Buffer& buffer, Lane& lane, bool writes, std::uint8_t choice) {
  writes = writes || buffer.version == 0;
  order(buffer.given_out, lane, choice);
  const std::vector<Moment> before = writes ? buffer.uses : buffer.writes;
  for (const Moment moment : before) order(moment, lane, choice);
  const bool known = lane.index == buffer.owner || buffer.recorded.contains(lane.index);
  const auto record = [&] {
    ask([&] { world_.allocator->record_use(buffer.address, lane.ref); });
    buffer.recorded.insert(lane.index);
  };
  if (!known && choice % 3 == 0) record();
  launch(buffer, lane, writes);
  if (!known && choice % 3 == 1) record();
}

void Interpreter::launch(Buffer& buffer, Lane& lane, bool writes) {
  if (writes) ++buffer.version;
  const std::uint64_t value = content(buffer.serial, buffer.version);
  Operation operation;
  operation.name = (writes ? "write " : "read ") + std::to_string(buffer.serial);
  operation.views.push_back({buffer.address, buffer.bytes, writes ? Access::write : Access::read});
  operation.cost.fixed = Nanoseconds{1000 + buffer.bytes / 64};
  operation.host = [writes, value, &errors = world_.errors,
                    name = operation.name](const KernelContext& context) {
    const auto data = context.bytes(0);
    if (writes) {
      fill(data.data(), data.size(), value);
    } else if (!holds(data.data(), data.size(), value)) {
      errors.push_back(name + " found what another had written");
    }
  };
  if (world_.kernels != nullptr) operation.cuda = on_gpu(operation, value);
  world_.device.launch(std::move(operation), lane.handle);
  const Moment moment = now(lane);
  buffer.uses.push_back(moment);
  if (writes) buffer.writes = {moment};
}

/** Returns the work of an operation's host kernel as a GPU kernel. */
std::function<void(void*)> Interpreter::on_gpu(const Operation& operation, std::uint64_t value) {
  const View& view = operation.views[0];
  const std::size_t words = view.bytes / sizeof(std::uint64_t);
  const SampledWords sampled{static_cast<std::byte*>(view.address), words, stride_of(words),
                             words > 0};
  const auto time = static_cast<std::uint64_t>(operation.cost.fixed.count());
  return [sampled, value, time, writes = view.access == Access::write,
          &kernels = *world_.kernels](void* stream) {
    if (writes) {
      kernels.fill(stream, sampled, value, time);
    } else {
      kernels.check(stream, sampled, value, time);
    }
  };
}

void Interpreter::order(Moment moment, Lane& lane, std::uint8_t choice) {
  Knowledge known = lane.after;
  known.learn(host_);
  if (known.covers(moment)) return;
  Lane& before = *world_.lanes[moment.lane];
  const Knowledge learnt = before.after;
  if (!before.alive) {
    attempt([&] { world_.ordered.wait(lane.ref, before.last); });
  } else if (choice % 4 == 0) {  // an edge that Millrace does not see
    const EventHandle event = world_.device.create_event();
    world_.device.record(event, before.handle);
    world_.device.wait(lane.handle, event);
    world_.device.destroy_event(event);
  } else if (choice % 4 == 1) {  // an edge that Millrace sees
    const EventHandle event = world_.device.create_event();
    attempt([&] { world_.ordered.record(event, before.ref); });
    attempt([&] { world_.ordered.wait(lane.ref, event); });
    world_.ordered.forget(event);
    world_.device.destroy_event(event);
  } else {
    Event event;
    attempt([&] { world_.ordered.record(event, before.ref); });
    attempt([&] { world_.ordered.wait(lane.ref, event); });
  }
  lane.after.learn(learnt);
}

void Interpreter::transfer(Buffer& buffer, Lane& lane) {
  const Lane& owner = *world_.lanes[buffer.owner];
  if (!owner.alive && owner.kind == LaneKind::raw) return;  // another stream may have its handle
  ask([&] { world_.allocator->transfer(buffer.address, lane.ref); });
  if (lane.index == buffer.owner) return;
  buffer.recorded.insert(buffer.owner);
  buffer.recorded.erase(lane.index);
  buffer.owner = lane.index;
}

/** Orders `lane` after the uses that are not recorded. */
void Interpreter::cover_unrecorded(const Buffer& buffer, Lane& lane, std::uint8_t choice) {
  for (const Moment moment : buffer.uses) {
    if (!buffer.recorded.contains(moment.lane)) order(moment, lane, choice);
  }
}

void Interpreter::free(Buffer buffer, Lane& lane, bool on_owner) {
  Lane& owner = *world_.lanes[buffer.owner];
  const bool all_recorded = std::ranges::all_of(buffer.uses, [&](Moment moment) {
    return moment.lane == buffer.owner || buffer.recorded.contains(moment.lane);
  });
  const bool needs_owner = world_.caching == nullptr && owner.kind == LaneKind::raw;
  if (!owner.alive && (needs_owner || !all_recorded)) on_owner = false;
  Lane& target = on_owner ? owner : lane;
  if (owner.alive || !on_owner) {
    cover_unrecorded(buffer, target, static_cast<std::uint8_t>(buffer.serial));
  }
  StreamRef stream = target.ref;
  if (!on_owner && world_.faults.planned()) {  // resolves a raw handle before the free
    attempt([&] { stream = world_.ordered.resolve(stream); });
  }
  world_.takes_back(buffer.address);
  const InAllocator in_allocator;
  if (on_owner) {
    world_.allocator->deallocate(buffer.address);
  } else {
    world_.allocator->deallocate(buffer.address, stream);
  }
}

void Interpreter::free_behind(Buffer buffer, Lane& lane) {
  for (const Moment moment : buffer.uses) {
    order(moment, lane, static_cast<std::uint8_t>(buffer.serial));
  }
  Point marker;
  attempt([&] { marker = world_.ordered.mark(lane.ref); });
  world_.takes_back(buffer.address);
  const InAllocator in_allocator;
  world_.allocator->deallocate(buffer.address, marker);
}

void Interpreter::free_in_callback(Buffer buffer, Lane& lane, Lane& callback) {
  Lane& owner = *world_.lanes[buffer.owner];
  if (!owner.alive) return free(std::move(buffer), lane, false);
  cover_unrecorded(buffer, owner, static_cast<std::uint8_t>(buffer.serial));
  world_.device.callback(callback.handle, [&world = world_, address = buffer.address] {
    world.takes_back(address);
    world.allocator->deallocate(address);
  });
  if (world_.kernels != nullptr) world_.device.synchronize();  // the callback must end first
}

void Interpreter::synchronize(Lane& lane) {
  const Knowledge learnt = lane.after;
  attempt([&] { world_.ordered.synchronize(lane.ref); });
  host_.learn(learnt);
}

void Interpreter::renew(std::size_t place) {
  if (!shares_world && !promised(world_.lane_at(place))) world_.renew(place);
}

void Interpreter::attach(std::size_t place) {
  const Lane& lane = world_.lane_at(place);
  if (lane.kind != LaneKind::raw || shares_world) return;
  if (!lane.attached) {
    attempt([&] { world_.attach(place); });
  } else if (!promised(lane)) {
    world_.detach(place);
  }
}

/** Returns whether a recorded use promises that the stream lives until a buffer is freed. */
bool Interpreter::promised(const Lane& lane) const {
  return std::ranges::any_of(
      buffers_, [&](const Buffer& buffer) { return buffer.recorded.contains(lane.index); });
}

Interpreter::Buffer Interpreter::take(const Step& step) {
  const auto at = buffers_.begin() + static_cast<std::ptrdiff_t>(step.buffer % buffers_.size());
  Buffer buffer = std::move(*at);
  buffers_.erase(at);
  return buffer;
}

void Interpreter::read_all() {
  for (Buffer& buffer : buffers_) {
    Lane& lane = world_.lane_at(buffer.serial);
    use(buffer, lane, false, 0);
  }
  world_.device.synchronize();
}

void Interpreter::free_all() {
  while (!buffers_.empty()) {
    Buffer buffer = std::move(buffers_.back());
    buffers_.pop_back();
    free(std::move(buffer), world_.lane_at(0), true);
  }
}

}  // namespace millrace::test
