#include "millrace/pipeline/schedule/training_loop.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>
#include <utility>

#include "schedule/loop_recorder.hpp"
#include "schedule/model_program.hpp"
#include "schedule/sparse_exchange.hpp"

namespace millrace {
namespace {

constexpr std::size_t kSparseDistDepth = 3;
constexpr std::size_t kBaseDepth = 1;

/** Pinned memory for every batch that can be on its way is there before the first step, as it is
 * with a loader that has run for a while: allocating it stops the device. */
void warm_pinned_memory(Allocator& pinned, std::span<const BatchSizes> batches, std::size_t depth,
                        StreamRef copy) {
  std::vector<std::size_t> largest(batches.front().tensors().size());
  for (const BatchSizes& batch : batches) {
    const std::vector<std::size_t> sizes = batch.tensors();
    for (std::size_t i = 0; i < sizes.size(); ++i) largest[i] = std::max(largest[i], sizes[i]);
  }
  std::vector<HostBatch> held;
  for (std::size_t i = 0; i <= depth; ++i) held.emplace_back(pinned, largest, copy);
}

Nanoseconds compute_time(const Workload& workload, Device& device) {
  const Nanoseconds copy = host_to_device_time(device, workload.mean_batch_bytes());
  return Nanoseconds{static_cast<Nanoseconds::rep>(
      std::llround(workload.compute_to_copy * static_cast<double>(copy.count())))};
}

/** What both shapes share: loading, copying, counting and the end of a step. */
class TrainingLoop {
 public:
  TrainingLoop(const Workload& workload, std::span<const BatchSizes> batches,
               const LoopSetting& setting, const LoopOptions& options, std::size_t depth)
      : workload_(workload),
        batches_(batches),
        options_(options),
        work_(setting, workload.shape),
        strategy_(CopyStrategy::make(options.method, {.allocator = setting.batches,
                                                      .main = work_.main,
                                                      .copy = work_.copy,
                                                      .depth = depth,
                                                      .waits = options.waits,
                                                      .observer = &work_,
                                                      .tag = setting.batches.tag("batch")})),
        recorder_(work_, options.warm_up),
        model_(work_, workload, compute_time(workload, setting.device.device())) {
    warm_pinned_memory(setting.pinned, batches, depth, work_.copy);
  }
  virtual ~TrainingLoop() = default;

  [[nodiscard]] LoopReport run() {
    fill();
    while (!held_.empty()) {
      step();
      if (workload_.run_ahead == 0) work_.main.synchronize();
      recorder_.step_ended(held_.size());
    }
    return recorder_.report();
  }

 protected:
  virtual void fill() = 0;
  virtual void step() = 0;

  void copy_next() {
    if (loaded_ == batches_.size()) return;
    const BatchSizes& sizes = batches_[loaded_++];
    HostBatch host{work_.setting().pinned, sizes.tensors(), work_.copy};
    BatchInFlight& flight = held_.emplace_back();
    flight.sizes = sizes;
    flight.batch = strategy_->copy(host.tensors());
    host.release(flight.batch.copied());
    count_held();
  }

  void count_held() {
    recorder_.batches_held(static_cast<std::size_t>(std::count_if(
        held_.begin(), held_.end(),
        [](const BatchInFlight& flight) { return !flight.batch.tensors().empty(); })));
  }

  const Workload& workload_;
  const std::span<const BatchSizes> batches_;
  const LoopOptions options_;
  LoopWork work_;
  std::unique_ptr<CopyStrategy> strategy_;
  LoopRecorder recorder_;
  ModelProgram model_;
  std::deque<BatchInFlight> held_;

 private:
  std::size_t loaded_ = 0;
};

class SparseDistLoop final : public TrainingLoop {
 public:
  SparseDistLoop(const Workload& workload, std::span<const BatchSizes> batches,
                 const LoopSetting& setting, const LoopOptions& options)
      : TrainingLoop(workload, batches, setting, options, kSparseDistDepth),
        exchange_(work_, workload_, work_.data_dist, options.waits) {}

 private:
  void fill() override {
    copy_next();
    exchange_.start(held_.front());
    finish_exchange(held_.front());
    copy_next();
  }

  void step() override {
    BatchInFlight& current = held_.front();
    model_.zero_gradients();
    take_batch(current);
    if (held_.size() > 1) exchange_.start(held_[1]);
    copy_next();
    take_features(current);
    model_.forward(current.batch, current.arranged);
    current.batch.last_used(work_.main.mark());
    if (held_.size() > 1) finish_exchange(held_[1]);
    model_.backward(current.arranged);
    current.arranged.reset();
    work_.main.mark();
    model_.optimizer_step();
    held_.pop_front();
    work_.main.mark();
  }

  [[nodiscard]] bool coarse() const { return options_.waits == Waits::coarse; }

  void take_batch(BatchInFlight& flight) {
    if (coarse()) {
      work_.main.wait_stream(work_.data_dist);
      flight.batch.record_use(work_.main);
    } else {
      flight.batch.hand_to(work_.main);
    }
  }

  // With precise waits the features are arranged at once, so that the marker behind that is not
  // behind the exchange of the next batch.
  void finish_exchange(BatchInFlight& flight) {
    exchange_.exchange(flight);
    if (!coarse()) exchange_.arrange(flight);
  }

  void take_features(BatchInFlight& flight) {
    if (coarse()) {
      exchange_.arrange(flight);
      work_.main.wait_stream(work_.data_dist);
    } else {
      work_.main.wait(flight.ready);
    }
    flight.arranged.record_use(work_.main);
  }

  SparseExchange exchange_;
};

class BaseLoop final : public TrainingLoop {
 public:
  BaseLoop(const Workload& workload, std::span<const BatchSizes> batches,
           const LoopSetting& setting, const LoopOptions& options)
      : TrainingLoop(workload, batches, setting, options, kBaseDepth),
        exchange_(work_, workload_, work_.main, options.waits) {}

 private:
  void fill() override { copy_next(); }

  // The batch goes when forward is enqueued: backward needs no more than what forward kept.
  void step() override {
    BatchInFlight current = std::move(held_.front());
    held_.pop_front();
    model_.zero_gradients();
    exchange_.start(current);
    exchange_.exchange(current, workload_.world_size > 1);
    exchange_.arrange(current);
    model_.forward(current.batch, current.arranged);
    current.batch.last_used(work_.main.mark());
    current.batch.release();
    model_.backward(current.arranged);
    current.arranged.reset();
    work_.main.mark();
    copy_next();
    model_.optimizer_step();
    work_.main.mark();
  }

  SparseExchange exchange_;
};

}  // namespace

LoopReport run_training_loop(const Workload& workload, std::span<const BatchSizes> batches,
                             const LoopSetting& setting, const LoopOptions& options) {
  if (options.warm_up == 0 || batches.size() <= options.warm_up) {
    throw std::invalid_argument{"a run needs a step of warm-up, and more batches than that"};
  }
  if (workload.shape == LoopShape::base) {
    return BaseLoop{workload, batches, setting, options}.run();
  }
  return SparseDistLoop{workload, batches, setting, options}.run();
}

Nanoseconds host_to_device_time(Device& device, std::size_t bytes) {
  const std::size_t sample = std::clamp(bytes, std::size_t{1}, std::size_t{64} << 20);
  void* const from = device.allocate_host(sample);
  void* const to = device.allocate(sample);
  const StreamHandle stream = device.create_stream();
  const EventHandle begin = device.create_event(true);
  const EventHandle end = device.create_event(true);
  device.copy(to, from, sample, CopyKind::host_to_device, stream);
  device.record(begin, stream);
  device.copy(to, from, sample, CopyKind::host_to_device, stream);
  device.record(end, stream);
  device.synchronize(stream);
  const Nanoseconds time = device.event_time(end) - device.event_time(begin);
  device.destroy_event(begin);
  device.destroy_event(end);
  device.destroy_stream(stream);
  device.free(to);
  device.free_host(from);
  const double scale = static_cast<double>(bytes) / static_cast<double>(sample);
  return Nanoseconds{static_cast<Nanoseconds::rep>(static_cast<double>(time.count()) * scale)};
}

}  // namespace millrace
