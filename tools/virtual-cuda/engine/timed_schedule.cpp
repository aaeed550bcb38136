#include "engine/timed_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>

namespace millrace::virtual_cuda {
namespace {

Nanoseconds transfer(std::size_t bytes, double bytes_per_second) {
  return Nanoseconds{
      static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_second * 1e9))};
}

// One engine for each copy direction, one for peer copies, one for kernels that take the machine.
std::optional<std::size_t> engine_of(const Work& work) {
  const auto* const kernel = std::get_if<KernelWork>(&work);
  if (kernel != nullptr && kernel->whole_machine) return 3;
  const auto* const copy = std::get_if<CopyWork>(&work);
  if (copy == nullptr) return std::nullopt;
  switch (copy->direction) {
    case Direction::host_to_device:
      return 0;
    case Direction::device_to_host:
      return 1;
    case Direction::peer:
      return 2;
    default:
      return std::nullopt;
  }
}

}  // namespace

TimedSchedule::TimedSchedule(Engine& engine, const DeviceProfile& profile)
    : Schedule{engine}, profile_{profile} {}

void TimedSchedule::enqueued(Lock& lock, const OperationRef& operation) {
  plan(operation, now_);
  settle(lock);
  // A full launch queue blocks the host until an operation ends.
  while (due_.size() > profile_.launch_queue_depth) {
    now_ = std::max(now_, due_.begin()->first.first);
    const std::size_t before = due_.size();
    settle(lock);
    if (due_.size() == before) break;
  }
}

// The GPU enqueued this operation. So it does not wait for the host's clock, which may be ahead.
void TimedSchedule::plan(const OperationRef& operation) { plan(operation, Nanoseconds{0}); }

void TimedSchedule::delayed() {
  delayed_ = true;
  // A pass in the order of the numbers is enough unless conditional nodes are nested.
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& [number, operation] : engine().pending()) {
      if (operation->state != Operation::State::waiting) continue;
      const Nanoseconds begin = begin_after(*operation, operation->begin);
      if (begin == operation->begin) continue;
      if (due_.erase({operation->end, number}) == 0) continue;  // it is still to be planned
      operation->end += begin - operation->begin;
      operation->begin = begin;
      due_.emplace(std::pair{operation->end, number}, operation);
      moved = true;
    }
  }
}

// A wait for a loop runs all its passes before `settle`, so done operations must leave `due_` here.
void TimedSchedule::finished(const Operation& operation) {
  due_.erase({operation.end, operation.number});
}

void TimedSchedule::settle(Lock& lock) {
  do {
    delayed_ = false;
    settle_once(lock);
  } while (delayed_);
}

void TimedSchedule::settle_once(Lock& lock) {
  std::vector<OperationRef> ended;
  for (const auto& [key, operation] : due_) {
    if (key.first > now_) break;
    ended.push_back(operation);
  }
  for (const OperationRef& operation : ended) {
    if (operation->end > now_) continue;  // delayed meanwhile
    // `finished` could not erase an operation that was done before it was announced.
    if (operation->done() || engine().complete(lock, operation, patience_for(*operation)))
      due_.erase({operation->end, operation->number});
  }
}

bool TimedSchedule::query(Lock& lock, const OperationRef& operation) {
  settle(lock);
  return operation->done();
}

void TimedSchedule::waited(Lock& lock, const Operation& operation) {
  if (operation.end > now_) now_ = operation.end + profile_.wake_latency;
  settle(lock);
}

std::size_t TimedSchedule::choose(const std::vector<Operation*>& ready) {
  const auto first =
      std::min_element(ready.begin(), ready.end(), [](const Operation* a, const Operation* b) {
        return std::pair{a->end, a->number} < std::pair{b->end, b->number};
      });
  return static_cast<std::size_t>(first - ready.begin());
}

void TimedSchedule::spend(Call call) { now_ += profile_.host(call); }

Nanoseconds TimedSchedule::duration(const Work& work) const {
  if (const auto* const copy = std::get_if<CopyWork>(&work)) {
    switch (copy->direction) {
      case Direction::host_to_device:
        return profile_.copy_latency +
               transfer(copy->bytes(), copy->staged ? profile_.pageable : profile_.host_to_device);
      case Direction::device_to_host:
        return profile_.copy_latency + transfer(copy->bytes(), profile_.device_to_host);
      case Direction::peer:
        return profile_.copy_latency + transfer(copy->bytes(), profile_.peer_to_peer);
      case Direction::on_device:
        return std::max(profile_.minimum_kernel,
                        transfer(copy->bytes(), profile_.device_to_device));
      case Direction::host_to_host:
        return transfer(copy->bytes(), profile_.pageable);
    }
  }
  if (const auto* const fill = std::get_if<FillWork>(&work))
    return std::max(profile_.minimum_kernel, transfer(fill->bytes(), profile_.memory_bandwidth));
  if (const auto* const kernel = std::get_if<KernelWork>(&work))
    return std::max(profile_.minimum_kernel, time_of(*kernel, profile_));
  if (std::holds_alternative<HostWork>(work)) return profile_.callback_latency;
  if (std::holds_alternative<RecordWork>(work)) return profile_.record_latency;
  return Nanoseconds{0};
}

Nanoseconds TimedSchedule::begin_after(const Operation& operation, Nanoseconds from) const {
  for (const OperationRef& earlier : operation.after) {
    const bool other = earlier->stream_id != operation.stream_id;
    from = std::max(from, earlier->end + (other ? profile_.wait_latency : Nanoseconds{0}));
  }
  return from;
}

void TimedSchedule::plan(const OperationRef& operation, Nanoseconds from) {
  if (std::holds_alternative<KernelWork>(operation->work)) from += profile_.launch_latency;
  Nanoseconds begin = begin_after(*operation, from);
  const std::optional<std::size_t> engine = engine_of(operation->work);
  if (engine) begin = std::max(begin, engine_free_[{operation->device, *engine}]);
  operation->begin = begin;
  operation->end = begin + duration(operation->work);
  if (engine) engine_free_[{operation->device, *engine}] = operation->end;
  due_.emplace(std::pair{operation->end, operation->number}, operation);
}

}  // namespace millrace::virtual_cuda
