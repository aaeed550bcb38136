#include "millrace/observe/driver_model.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "millrace/device/small_blocks.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "observe/replay/logged_program.hpp"

namespace millrace {
namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedOrder;
using trace::OrderKind;

constexpr std::size_t kMallocPage = std::size_t{2} << 20;

/** Limits the size of the modeled device: at least a page, at most the addresses of a process,
 * which is more than any GPU has. */
std::size_t modeled_bytes(const AllocationLog& log, std::uint32_t device, std::size_t asked) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  if (asked == 0 && device < log.device_memory.size()) asked = log.device_memory[device];
  return asked == 0 ? kMost : std::clamp(asked, kMallocPage, kMost);
}

/** Repeats a log's requests on a modeled GPU without data. */
class ScheduledRun {
 public:
  ScheduledRun(const trace::AllocationLog& log, std::uint32_t device, std::size_t device_bytes,
               VirtualMachine::Schedule schedule)
      : log_(log),
        number_(device),
        machine_({.schedule = schedule, .seed = 1}),
        device_(machine_.add_device({.memory_bytes = device_bytes, .data = false})) {}

  std::size_t peak() {
    const std::size_t before = used();
    std::size_t peak = before;
    repeat_program(
        log_, [&](const LoggedOrder& step) { apply(step); },
        [&](const LogEvent& event) {
          apply(event);
          peak = std::max(peak, used());
        });
    return peak - before;
  }

 private:
  struct Block {
    void* address = nullptr;  // nullptr: it shares a page with other blocks
    bool of_pool = false;
    std::optional<SmallBlocks::Block> small;
  };

  [[nodiscard]] std::size_t used() {
    const MemoryInfo info = device_.memory_info();
    return info.total - info.free;
  }

  StreamHandle stream(std::uint32_t index) {
    const trace::LoggedStream& logged = log_.streams[index];
    if (logged.legacy) return device_.legacy_stream();
    const auto [it, is_new] = streams_.try_emplace(index);
    if (is_new) it->second = device_.create_stream({.blocking = logged.blocking});
    return it->second;
  }

  void apply(const LogEvent& event) {
    if (event.device != number_) return;
    if (event.kind == EventKind::allocate) {
      blocks_[event.block] =
          log_.streams[event.stream].for_all ? allocate_for_all(event.bytes) : allocate(event);
    } else if (event.kind == EventKind::free_requested) {
      free(event);
    }
  }

  Block allocate(const LogEvent& event) {
    const std::uint32_t owner = log_.blocks[event.block].stream;
    void* const address = device_.allocate_async(event.bytes, stream(owner));
    if (owner != event.stream) wait(event.stream, owner);  // the first user waits for the owner
    return {.address = address, .of_pool = true, .small = {}};
  }

  // cudaMalloc takes whole pages. Small blocks share a page.
  Block allocate_for_all(std::size_t bytes) {
    if (bytes >= kMallocPage) return {device_.allocate(bytes), false, {}};
    const auto small = small_.take(bytes);
    if (small.opens) pages_[small.page] = device_.allocate(kMallocPage);
    return {nullptr, false, small};
  }

  void free(const Block& block) {
    if (block.address != nullptr) return device_.free(block.address);
    if (small_.give(*block.small)) device_.free(pages_.extract(block.small->page).mapped());
  }

  void free(const LogEvent& event) {
    const auto it = blocks_.find(event.block);
    if (it == blocks_.end()) return;
    const Block block = it->second;
    blocks_.erase(it);
    const bool is_complete = log_.streams[event.stream].for_all;
    if (is_complete || !block.of_pool) {
      device_.synchronize();
    } else {
      wait_for_uses(event);
    }
    uses_.erase(event.block);
    if (!block.of_pool) {
      free(block);
    } else {
      device_.free_async(block.address,
                         is_complete ? device_.legacy_stream() : stream(event.stream));
    }
  }

  // The pool knows of no other uses: before a free, its stream has to wait for them.
  void wait_for_uses(const LogEvent& event) {
    const auto uses = uses_.find(event.block);
    if (uses == uses_.end()) return;
    for (const std::uint32_t use : uses->second) {
      if (use != event.stream) wait(event.stream, use);
    }
  }

  void wait(std::uint32_t waiter, std::uint32_t other) {
    const EventHandle made = device_.create_event();
    device_.record(made, stream(other));
    device_.wait(stream(waiter), made);
  }

  void keep_in_pool(std::size_t bytes) {
    pool_.release_threshold = bytes;
    device_.set_pool_policy(pool_);
  }

  void apply(const LoggedOrder& step) {
    if (step.device != number_) return;
    if (step.kind == OrderKind::passed_device) return device_.synchronize();
    if (step.kind == OrderKind::pool_trimmed) return device_.trim_pool(step.bytes);
    if (step.kind == OrderKind::pool_keeps) return keep_in_pool(step.bytes);
    if (log_.streams[step.stream].for_all) return;
    switch (step.kind) {
      case OrderKind::marked: {
        const EventHandle made = device_.create_event();
        device_.record(made, stream(step.stream));
        events_.put(step.stream, step.marker, made);
        return;
      }
      case OrderKind::waited:
        if (const EventHandle* const event = events_.covering(step.other, step.marker))
          device_.wait(stream(step.stream), *event);
        return;
      case OrderKind::passed:
        if (const EventHandle* const event = events_.covering(step.stream, step.marker))
          device_.synchronize(*event);
        return;
      case OrderKind::passed_stream:
        return device_.synchronize(stream(step.stream));
      case OrderKind::used:
        uses_[step.block].insert(step.stream);
        return;
      case OrderKind::pool_keeps:
      case OrderKind::pool_trimmed:
      case OrderKind::passed_device:
      case OrderKind::not_passed:
      case OrderKind::stream_not_passed:
      case OrderKind::closed:
      case OrderKind::transferred:
        return;
    }
  }

  const trace::AllocationLog& log_;
  const std::uint32_t number_;
  VirtualMachine machine_;
  VirtualDevice& device_;
  std::map<std::uint32_t, StreamHandle> streams_;
  LoggedMarkers<EventHandle> events_;
  DriverPoolPolicy pool_ = device_.profile().pool;
  std::unordered_map<std::uint32_t, Block> blocks_;
  SmallBlocks small_{kMallocPage};
  std::unordered_map<std::uint32_t, void*> pages_;                   // of small blocks
  std::unordered_map<std::uint32_t, std::set<std::uint32_t>> uses_;  // streams, by block
};

}  // namespace

DriverModel model_driver(const trace::AllocationLog& log, std::uint32_t device,
                         std::size_t device_bytes) {
  using Schedule = VirtualMachine::Schedule;
  device_bytes = modeled_bytes(log, device, device_bytes);
  return {.least = ScheduledRun{log, device, device_bytes, Schedule::timed}.peak(),
          .most = ScheduledRun{log, device, device_bytes, Schedule::adversarial}.peak()};
}

}  // namespace millrace
