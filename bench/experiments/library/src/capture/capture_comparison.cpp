#include "millrace/experiment/capture_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/observe/stream_names.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/streamer/append_rows.hpp"
#include "millrace/streamer/lag.hpp"
#include "millrace/streamer/step_batch.hpp"

namespace millrace::experiment {
namespace {

constexpr unsigned kBatches = 4;  ///< number of different batches; steps use them in turn
constexpr unsigned kCopies = 9;

void check(const CaptureWorkload& workload) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument{what}; };
  if (workload.tables == 0 || workload.width == 0)
    refuse("there are no tables, or they have no columns");
  if (workload.steps == 0 || workload.run_ahead == 0) refuse("there is no step to measure");
  if (workload.rows == 0 || workload.rows % workload.tables != 0) {
    refuse(fmt::format(
        "{} rows are not shared evenly by {} tables (expected a number of rows that {} divides)",
        workload.rows, workload.tables, workload.tables));
  }
  if (workload.rows / workload.tables * kBatches > workload.table_rows) {
    const std::size_t rows = workload.rows / workload.tables;
    refuse(fmt::format(
        "tables of {} rows are too small for {} different ones a step (expected at least {} rows)",
        workload.table_rows, rows, rows * kBatches));
  }
}

/** Timed events of a stream. The destructor destroys them. */
class Stamps {
 public:
  explicit Stamps(Device& device) : device_(device) {}
  ~Stamps() {
    for (const EventHandle event : events_) {
      try {
        device_.destroy_event(event);
      } catch (const DeviceError&) {
      }
    }
  }
  Stamps(const Stamps&) = delete;
  Stamps& operator=(const Stamps&) = delete;

  void stamp(StreamRef stream) {
    events_.push_back(device_.create_event(true));
    device_.record(events_.back(), stream.handle());
  }
  void wait(std::size_t index) { device_.synchronize(events_[index]); }
  [[nodiscard]] Nanoseconds time(std::size_t index) { return device_.event_time(events_[index]); }
  [[nodiscard]] std::size_t size() const noexcept { return events_.size(); }

 private:
  Device& device_;
  std::vector<EventHandle> events_;
};

/** Records when the rows of each step arrived. */
class Arrivals final : public CaptureReceiver {
 public:
  explicit Arrivals(Executor& executor) : executor_(executor) {}

  [[nodiscard]] bool captured(const CapturedRows& rows) override {
    StepBatch batch;  // as a shipper does, so that its work counts
    append_rows(batch, rows, 1);
    const std::lock_guard lock{mutex_};
    if (rows.more) return true;
    if (at_.size() <= rows.step) at_.resize(rows.step + 1);
    at_[rows.step] = executor_.now();
    return true;
  }
  [[nodiscard]] Nanoseconds at(std::uint64_t step) const {
    const std::lock_guard lock{mutex_};
    return step < at_.size() ? at_[step] : Nanoseconds{0};
  }

 private:
  Executor& executor_;
  mutable std::mutex mutex_;
  std::vector<Nanoseconds> at_;
};

/** A device and the loop's resources on it. */
struct Place {
  explicit Place(const CaptureWorkload& workload)
      : cell(RunDevice::open(workload.device, {})),
        device(cell->device()),
        ordered(device),
        memory(ordered, {.allocator = workload.allocator, .executor = &cell->executor()}),
        main(ordered, {.name = "main"}),
        context(memory.memory(), main, device.modeled()) {}

  const std::unique_ptr<RunDevice> cell;
  Device& device;
  OrderedDevice ordered;
  RunMemory memory;
  Stream main;
  ModelContext context;
};

std::vector<TableConfig> tables_of(const CaptureWorkload& workload) {
  std::vector<TableConfig> tables;
  for (std::size_t t = 0; t < workload.tables; ++t) {
    tables.push_back({.name = fmt::format("{}", t),
                      .rows = workload.table_rows,
                      .width = workload.width,
                      .features = {fmt::format("f{}", t)}});
  }
  return tables;
}

template <typename T>
BatchTensor uploaded(Place& place, const std::vector<T>& values) {
  BatchTensor tensor{place.memory.memory(), values.size() * sizeof(T), place.main};
  place.device.copy(tensor.data(), values.data(), tensor.bytes(), CopyKind::host_to_device,
                    place.main.handle());
  return tensor;
}

/** A batch with distinct rows of each table, in scattered order. Different batches have different
 * rows. */
KeyedJaggedTensor batch_of(Place& place, const CaptureWorkload& workload, const EmbeddingBags& bags,
                           unsigned number) {
  const std::size_t of_table = workload.rows / workload.tables;
  JaggedLayout layout{.keys = make_keys(bags.features()),
                      .batch_size = of_table,
                      .counts = std::vector<std::size_t>(workload.tables, of_table)};
  std::size_t step = workload.table_rows / 2 + 1;  // coprime to the number of rows
  while (std::gcd(step, workload.table_rows) != 1) ++step;
  std::vector<std::int64_t> values;
  for (std::size_t t = 0; t < workload.tables; ++t) {
    for (std::size_t i = 0; i < of_table; ++i) {
      values.push_back(
          static_cast<std::int64_t>((number * of_table + i) * step % workload.table_rows));
    }
  }
  std::vector<std::int32_t> offsets(workload.rows + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  return {layout,
          {.values = uploaded(place, values),
           .lengths = uploaded(place, std::vector<std::int32_t>(workload.rows, 1)),
           .offsets = uploaded(place, offsets)}};
}

Nanoseconds median(std::vector<Nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::size_t bytes_of(Allocator& memory, const char* tag) {
  std::size_t bytes = 0;
  for (const ShareStatistics& share : memory.statistics().tags) {
    if (share.name == tag) bytes += share.allocated.current;
  }
  return bytes;
}

CaptureCounts since(const CaptureCounts& before, CaptureCounts now) {
  for (auto field :
       {&CaptureCounts::steps, &CaptureCounts::rows, &CaptureCounts::changed_bytes,
        &CaptureCounts::link_bytes, &CaptureCounts::copied_bytes, &CaptureCounts::captures,
        &CaptureCounts::dirty_captures, &CaptureCounts::overflowed_rows,
        &CaptureCounts::dropped_steps, &CaptureCounts::dropped_rows, &CaptureCounts::returned_rows,
        &CaptureCounts::skipped_rows, &CaptureCounts::failures, &CaptureCounts::everything_marked,
        &CaptureCounts::waits}) {
    now.*field -= before.*field;
  }
  now.copying -= before.copying;
  now.waited -= before.waited;
  return now;
}

class Loop {
 public:
  Loop(const CaptureWorkload& workload, const std::optional<CaptureOptions>& capture)
      : workload_(workload),
        place_(workload),
        bags_(place_.context, tables_of(workload), {.optimizer = {.kind = OptimizerKind::sgd}}),
        arrivals_(place_.cell->executor()),
        pooled_(place_.context.activation<float>(workload.rows * workload.width, place_.main)),
        gradient_(place_.context.activation<float>(workload.rows * workload.width, place_.main)),
        begins_(place_.device),
        updates_(place_.device) {
    VirtualMachine* const machine = place_.cell->machine();
    if (workload.recorded && machine != nullptr) {
      recording_.emplace(*machine, place_.device, place_.memory.trace());
    }
    place_.device.fill(gradient_.data(), 0, gradient_.size() * sizeof(float), place_.main.handle());
    for (unsigned i = 0; i < kBatches; ++i) {
      batches_.push_back(batch_of(place_, workload, bags_, i));
    }
    if (!capture) return;
    std::vector<std::uint32_t> numbers(workload.tables);
    std::iota(numbers.begin(), numbers.end(), 0U);
    capture_ =
        std::make_unique<RowCapture>(RowCapture::Source{bags_, 0, std::move(numbers)},
                                     CaptureEnvironment{place_.context, place_.memory.pinned(),
                                                        place_.cell->executor(), arrivals_},
                                     *capture);
  }

  CaptureRun run() {
    place_.ordered.synchronize();
    const Nanoseconds offset = clock_offset();
    for (unsigned i = 0; i < workload_.warm_up; ++i) step();
    const CaptureCounts before = capture_ ? capture_->counts() : CaptureCounts{};
    for (unsigned i = 0; i < workload_.steps; ++i) step();
    begins_.stamp(place_.main);
    CaptureRun run;
    if (capture_) run.counts = since(before, capture_->counts());
    run.device_bytes = bytes_of(place_.memory.memory(), "captured rows") +
                       bytes_of(place_.memory.memory(), "dirty rows");
    run.pinned_bytes = bytes_of(place_.memory.pinned(), "captured rows");
    run.bytes = place_.memory.memory().statistics().bytes;
    run.ladder = place_.memory.ladder(run.bytes.reserved.peak);
    place_.ordered.synchronize();
    if (capture_) capture_->stop();
    run.rows = run.counts.steps == 0 ? 0 : run.counts.rows / run.counts.steps;
    evaluate(run, offset);
    if (recording_) {
      const AllocationTrace& trace = place_.memory.trace();
      workload_.recorded({trace, *recording_, stream_names(trace, place_.ordered), run.ladder});
    }
    return run;
  }

 private:
  /** The difference between the executor's time and the time of events. */
  [[nodiscard]] Nanoseconds clock_offset() {
    Stamps now{place_.device};
    now.stamp(place_.main);
    now.wait(0);
    return place_.cell->executor().now() - now.time(0);
  }

  void step() {
    const std::size_t number = begins_.size();
    if (number >= workload_.run_ahead) updates_.wait(number - workload_.run_ahead);
    const KeyedJaggedTensor& batch = batches_[number % kBatches];
    begins_.stamp(place_.main);
    const std::size_t columns = workload_.tables * workload_.width;
    bags_.look_up(batch, nullptr, {pooled_.data(), columns}, place_.main);
    Operation compute;
    compute.name = "dense";
    compute.cost.fixed = workload_.compute;
    place_.device.launch(std::move(compute), place_.main.handle());
    updates_.stamp(place_.main);
    bags_.update(batch, nullptr, {gradient_.data(), columns}, place_.main);
    enqueued_.push_back(place_.cell->executor().now());
  }

  void evaluate(CaptureRun& run, Nanoseconds offset) {
    std::vector<Nanoseconds> periods;
    ship::Lags lags;
    for (std::size_t i = workload_.warm_up; i + 1 < begins_.size(); ++i) {
      periods.push_back(begins_.time(i + 1) - begins_.time(i));
      const Nanoseconds arrived = arrivals_.at(i + 1);  // table steps count from 1
      if (arrived > Nanoseconds{0}) lags.add(arrived - updates_.time(i) - offset);
      std::size_t under_way = 0;  // steps whose update had not begun
      while (under_way <= i && updates_.time(i - under_way) + offset > enqueued_[i]) ++under_way;
      run.run_ahead += static_cast<double>(under_way) / workload_.steps;
    }
    run.step = median(std::move(periods));
    run.host_wait = run.counts.waited / workload_.steps;
    run.lag_p50 = lags.quantile(0.5);
    run.lag_p99 = lags.quantile(0.99);
    run.changed_bytes = run.counts.steps == 0 ? 0 : run.counts.changed_bytes / run.counts.steps;
  }

  const CaptureWorkload workload_;
  Place place_;
  EmbeddingBags bags_;
  Arrivals arrivals_;
  Array<float> pooled_, gradient_;
  std::vector<KeyedJaggedTensor> batches_;
  Stamps begins_, updates_;
  std::vector<Nanoseconds> enqueued_;  ///< time at which the step's last call returned
  std::unique_ptr<RowCapture> capture_;
  std::optional<RunRecording> recording_;
};

template <typename Enqueue>
Nanoseconds time_alone(Place& place, Enqueue&& enqueue) {
  std::vector<Nanoseconds> times;
  for (unsigned i = 0; i < kCopies; ++i) {
    Stamps stamps{place.device};
    stamps.stamp(place.main);
    enqueue();
    stamps.stamp(place.main);
    place.main.synchronize();
    times.push_back(stamps.time(1) - stamps.time(0));
  }
  return median(std::move(times));
}

}  // namespace

CaptureRun run_capture(const CaptureWorkload& workload,
                       const std::optional<CaptureOptions>& capture) {
  check(workload);
  return Loop{workload, capture}.run();
}

CaptureReference measure_reference(const CaptureWorkload& workload) {
  check(workload);
  Place place{workload};
  const std::size_t bytes = workload.rows * workload.width * sizeof(float);
  const Buffer from{place.memory.memory(), bytes, place.main};
  const Buffer to{place.memory.memory(), bytes, place.main};
  const Buffer on_host{place.memory.pinned(), bytes, place.main};
  const auto copy = [&](void* target, CopyKind kind) {
    return time_alone(
        place, [&] { place.device.copy(target, from.data(), bytes, kind, place.main.handle()); });
  };
  return {.on_device = copy(to.data(), CopyKind::device_to_device),
          .to_host = copy(on_host.data(), CopyKind::device_to_host)};
}

}  // namespace millrace::experiment
