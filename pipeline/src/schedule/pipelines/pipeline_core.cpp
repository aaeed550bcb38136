#include "schedule/pipelines/pipeline_core.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace millrace {

PipelineCore::PipelineCore(const PipelineSetting& setting, const PipelineOptions& options,
                           std::size_t depth, Stream& exchange_on)
    : setting_(setting),
      options_(options),
      depth_(depth),
      exchange_on_(exchange_on),
      model_(&setting.model),
      strategy_(CopyStrategy::make(options.copy, {.allocator = setting.batches,
                                                  .main = setting.streams.main,
                                                  .copy = setting.streams.copy,
                                                  .depth = depth,
                                                  .waits = options.waits,
                                                  .observer = setting.observer,
                                                  .tag = setting.batches.tag("batch")})) {}

bool PipelineCore::advance(BatchSource* source) {
  if (model_ == nullptr) throw std::logic_error{"a pipeline without a model can not train"};
  struct Source {
    BatchSource*& current;
    ~Source() { current = nullptr; }
  } const scope{source_};
  source_ = source;
  failed_ahead_ = nullptr;

  const bool stepped = step_once();
  if (failed_ahead_) std::rethrow_exception(std::exchange(failed_ahead_, nullptr));
  return stepped;
}

bool PipelineCore::step_once() {
  fill();
  if (held_.empty()) return false;
  if (source_ != nullptr && !options_.execute_all_batches) {
    draw();
    if (!drawn_) return false;
  }
  step(held_.front());
  ++steps_;
  held_.pop_front();
  main().mark();
  return true;
}

void PipelineCore::drain() {
  while (advance(nullptr)) {
  }
}

void PipelineCore::reset() noexcept {
  drawn_.reset();
  held_.clear();
}

TrainModel& PipelineCore::detach() {
  if (model_ == nullptr) throw std::logic_error{"no model is attached to this pipeline"};
  return *std::exchange(model_, nullptr);
}

void PipelineCore::draw() {
  if (!drawn_ && source_ != nullptr) drawn_ = source_->next();
}

void PipelineCore::copy_next() {
  if (on_device() == depth_) return;  // a step that failed before forward is done again
  draw();
  if (!drawn_) return;
  DeviceModelInput input = drawn_->to(*strategy_, setting_.streams.copy);
  drawn_->release(input.copied());
  drawn_.reset();
  held_.emplace_back().input = std::move(input);
  most_held_ = std::max(most_held_, on_device());
}

std::size_t PipelineCore::on_device() const {
  return static_cast<std::size_t>(std::count_if(
      held_.begin(), held_.end(), [](const BatchInFlight& flight) { return !flight.released; }));
}

void PipelineCore::start(BatchInFlight& flight) {
  if (flight.exchange || flight.features) return;
  flight.input.hand_to(exchange_on_);
  flight.exchange = setting_.exchange.start(flight.input.tensors(), exchange_on_);
}

void PipelineCore::receive(BatchInFlight& flight) {
  if (flight.received) return;
  flight.exchange->receive(options_.waits);
  flight.received = true;
}

void PipelineCore::arrange(BatchInFlight& flight) {
  if (!flight.features) {
    flight.features = flight.exchange->arrange();
    flight.exchange.reset();
  }
  const bool marked = coarse() || exchange_on_.id() == main().id() || flight.arranged.recorded();
  if (!marked) {
    main().device().record(flight.arranged, exchange_on_);
  }
}

void PipelineCore::forward(BatchInFlight& current) {
  current.lookup = model_->look_up(*current.features, main());
  model_->forward(current.input.tensors(), *current.lookup);
  current.input.last_used(main().mark());
  current.features.reset();
}

void PipelineCore::backward(BatchInFlight& current) {
  model_->backward(*current.lookup);
  model_->update_tables(*current.lookup, main());
  current.lookup.reset();
  main().mark();
}

void PipelineCore::release_input(BatchInFlight& current) {
  current.input.release();
  current.released = true;
}

}  // namespace millrace
