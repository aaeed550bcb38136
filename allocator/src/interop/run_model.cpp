#include "millrace/interop/run_model.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>
#include <utility>

#include "device/range_page.hpp"
#include "millrace/device/forwarding_device.hpp"
#include "millrace/interop/program_memory.hpp"
#include "observe/replay/logged_program.hpp"
#include "observe/replay/trace_device.hpp"

namespace millrace {
namespace {

using trace::AllocationLog;
using trace::EventKind;
using trace::LogEvent;
using trace::LoggedOrder;
using trace::OrderKind;

constexpr std::size_t kGranularity = std::size_t{2} << 20;

/** When work completes that the program does not wait for. */
enum class Completes : std::uint8_t {
  at_once,
  when_waited_for,
  at_random,
  by_stream,  ///< streams drawn at random complete at once, the others when they are waited for
  later,      ///< an event completes a fixed number of records and queries later
};

/** A device without work: a query is answered as `completes` says, and waits do nothing. */
class QueriedDevice final : public ForwardingDevice {
 public:
  QueriedDevice(TraceDevice& device, std::size_t page, Completes completes, unsigned seed)
      : ForwardingDevice(device),
        page_(page),
        completes_(completes),
        often_(1 + seed % 3),
        lag_(std::uint64_t{1} << (seed / 3 % 10)),
        random_(seed) {}

  std::size_t page_bytes() const override { return page_; }

 private:
  struct Recorded {
    StreamHandle stream;
    std::uint64_t at = 0;  ///< number of records and queries before the event
  };

  void do_record(EventHandle event, StreamHandle stream) override {
    ForwardingDevice::do_record(event, stream);
    events_[event.value] = last_[stream.value] = {stream, ++now_};
  }
  bool do_query(StreamHandle stream) override { return answer({stream, last_[stream.value].at}); }
  bool do_query(EventHandle event) override { return answer(events_[event.value]); }

  bool answer(const Recorded& of) {
    ++now_;
    switch (completes_) {
      case Completes::at_once:
        return true;
      case Completes::when_waited_for:
        return false;
      case Completes::at_random:
        return random_() % 4 < often_;
      case Completes::by_stream:
        return fast_.try_emplace(of.stream.value, random_() % 4 < often_).first->second;
      case Completes::later:
        return now_ - of.at > lag_;
    }
    return false;
  }

  const std::size_t page_;
  const Completes completes_;
  const unsigned often_;  // number of positive answers in four
  const std::uint64_t lag_;
  std::minstd_rand random_;
  std::uint64_t now_ = 0;
  std::unordered_map<void*, Recorded> events_;  // by event
  std::unordered_map<void*, Recorded> last_;    // by stream
  std::unordered_map<void*, bool> fast_;        // by stream
};

/** A log's requests, made once more. */
class RepeatedRun {
 public:
  RepeatedRun(const AllocationLog& log, std::uint32_t device, std::size_t device_bytes,
              const Policy& policy, Completes completes, unsigned seed)
      : log_(log),
        number_(device),
        addresses_(device_bytes),
        device_(addresses_, range_page(kGranularity, addresses_.memory_info().total), completes,
                seed),
        memory_(device_, static_cast<int>(device), options(policy)),
        program_(memory_) {}

  std::size_t peak() {
    repeat_program(
        log_, [&](const LoggedOrder& step) { apply(step); },
        [&](const LogEvent& event) {
          if (event.device == number_) apply(event);
        });
    return memory_.statistics().bytes.reserved.peak;
  }

 private:
  static DeviceMemory::Options options(const Policy& policy) {
    DeviceMemory::Options options;
    options.policy = policy;
    options.reads_environment = false;
    return options;
  }

  StreamHandle stream(std::uint32_t index) {
    const trace::LoggedStream& logged = log_.streams[index];
    if (logged.legacy) return {};
    const auto [it, is_new] = streams_.try_emplace(index);
    if (is_new) it->second = device_.create_stream({.blocking = logged.blocking});
    return it->second;
  }

  void apply(const LogEvent& event) {
    if (event.kind == EventKind::allocate) {
      blocks_[event.block] = log_.streams[event.stream].for_all
                                 ? program_.allocate_for_all(event.bytes)
                                 : program_.allocate(event.bytes, stream(event.stream));
    } else if (event.kind == EventKind::free_requested) {
      const auto it = blocks_.find(event.block);
      if (it == blocks_.end()) return;
      free(std::exchange(it->second, nullptr), event);
      blocks_.erase(it);
    }
  }

  void free(void* address, const LogEvent& event) {
    OrderedDevice& order = memory_.device();
    if (!log_.streams[event.stream].for_all) return program_.free(address, stream(event.stream));
    order.synchronize();  // cudaFree does this, too
    program_.free_completed(address, [&](StreamRef freed) { order.synchronize(freed); });
  }

  /** The program waited for it, or its query finds it now. */
  bool is_complete(const LoggedOrder& step) {
    const bool has_waited =
        !step.queried && (step.kind == OrderKind::passed || step.kind == OrderKind::passed_stream);
    return has_waited || device_.query(stream(step.stream));
  }

  void apply(const LoggedOrder& step) {
    if (step.device != number_) return;
    OrderedDevice& order = memory_.device();
    if (step.kind == OrderKind::passed_device) return order.synchronize();
    if (log_.streams[step.stream].for_all) return;
    const StreamRef on{stream(step.stream)};
    switch (step.kind) {
      case OrderKind::marked:
        marks_.put(step.stream, step.marker, order.mark(on));
        return;
      case OrderKind::waited:
        if (const Point* const mark = marks_.covering(step.other, step.marker))
          order.wait_for(on, *mark);
        return;
      case OrderKind::passed:
      case OrderKind::not_passed: {
        const Point* const mark = marks_.covering(step.stream, step.marker);
        if (mark != nullptr && is_complete(step)) order.synchronize(*mark);
        return;
      }
      case OrderKind::passed_stream:
      case OrderKind::stream_not_passed:
        if (is_complete(step)) order.synchronize(on);
        return;
      case OrderKind::closed:
        order.mark(on);
        return;
      case OrderKind::used:
        if (const auto block = blocks_.find(step.block); block != blocks_.end())
          memory_.record_use(block->second, on);
        return;
      case OrderKind::passed_device:
      case OrderKind::transferred:
      case OrderKind::pool_keeps:
      case OrderKind::pool_trimmed:
        return;
    }
  }

  const AllocationLog& log_;
  const std::uint32_t number_;
  TraceDevice addresses_;
  QueriedDevice device_;
  DeviceMemory memory_;
  ProgramMemory program_;
  std::map<std::uint32_t, StreamHandle> streams_;
  LoggedMarkers<Point> marks_;
  std::unordered_map<std::uint32_t, void*> blocks_;
};

}  // namespace

ModeledRun model_run(const AllocationLog& log, std::uint32_t device, std::size_t device_bytes,
                     const Policy& policy) {
  constexpr std::size_t kLeastRuns = 2, kMostRuns = 128, kMostEvents = 200'000;  // of all runs
  const std::size_t runs = std::clamp(kMostEvents / (log.events.size() + 1), kLeastRuns, kMostRuns);
  if (device_bytes == 0 && device < log.device_memory.size())
    device_bytes = log.device_memory[device];
  std::optional<ModeledRun> model;
  for (unsigned run = 0; run < runs; ++run) {
    constexpr Completes kCompletes[] = {Completes::at_once, Completes::when_waited_for,
                                        Completes::later, Completes::at_random,
                                        Completes::by_stream};
    const Completes completes = kCompletes[run < 2 ? run : 2 + run % 3];
    const std::size_t peak = RepeatedRun{log, device, device_bytes, policy, completes, run}.peak();
    if (!model) model = {peak, peak, policy.sharing == Sharing::wait_before_grow};
    model->least = std::min(model->least, peak);
    model->most = std::max(model->most, peak);
  }
  return *model;
}

}  // namespace millrace
