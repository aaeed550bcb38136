#include "schedule/pipelines/pipeline_core.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "millrace/memory/allocator.hpp"

namespace millrace {

PipelineCore::PipelineCore(const PipelineEnvironment& environment, const PipelineOptions& options,
                           Depth depth, Stream& exchange_on)
    : environment_(environment),
      options_(options),
      depth_{depth.between_steps + options.copies_ahead, depth.most + options.copies_ahead},
      exchange_on_(exchange_on),
      model_(&environment.model),
      last_model_(&environment.model),
      tables_on_(&environment.streams.main),
      strategy_(CopyStrategy::make(options.copy, {.allocator = environment.batches,
                                                  .main = environment.streams.main,
                                                  .copy = environment.streams.copy,
                                                  .depth = depth_.most,
                                                  .waits = options.waits,
                                                  .observer = environment.observer,
                                                  .tag = environment.batches.tag("batch")})) {}

bool PipelineCore::advance(BatchSource* source) {
  if (model_ == nullptr) throw std::logic_error{"no model is attached to this pipeline"};
  struct Source {
    BatchSource*& current;
    ~Source() { current = nullptr; }
  } const scope{source_};
  source_ = source;
  deferred_error_ = nullptr;

  const bool stepped = step_once();
  // Other users of the tables (a checkpoint, another pipeline) expect them on main.
  if (!stepped) order_tables(main());
  // Thrown only after the whole step: the next call continues with the next batch, and none is
  // lost.
  if (deferred_error_) std::rethrow_exception(std::exchange(deferred_error_, nullptr));
  return stepped;
}

// Copies additional batches. One call per source copies most of them: afterwards each step copies
// one batch and ends one. If memory runs out for a batch that is not needed yet, the next step
// tries again.
void PipelineCore::copy_ahead() {
  defer_errors([&] {
    for (std::size_t held = 0; held != held_.size() && held_.size() < depth_.between_steps;) {
      held = held_.size();
      draw();
      try {
        copy_next();
      } catch (const out_of_memory&) {
        return;
      }
    }
  });
}

bool PipelineCore::step_once() {
  fill();
  if (options_.copies_ahead > 0) copy_ahead();
  if (held_.empty()) {
    // Other ranks must not wait for a batch that does not come. A drain has no source, so it
    // reports nothing.
    if (source_ != nullptr) environment_.exchange.exhausted();
    return false;
  }
  // A step is made only if another batch was drawn. Otherwise those in flight wait for the next
  // source.
  if (source_ != nullptr && !options_.execute_all_batches) {
    draw();
    if (!drawn_) return false;
  }
  step(held_.front());
  ++steps_;
  held_.pop_front();
  // The end of the step. A later copy or allocation that reuses memory of this step waits for this
  // marker, and not for later work on main.
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
  try {
    order_tables(main());
  } catch (const DeviceError&) {  // the device is lost, with everything on it
  }
}

TrainModel& PipelineCore::detach() {
  if (model_ == nullptr) throw std::logic_error{"no model is attached to this pipeline"};
  // Lookups read the tables of the old model, so the new model repeats them.
  for (BatchInFlight& flight : held_) {
    flight.lookup.reset();
    flight.is_looked_up = false;
    flight.looked_up = {};
  }
  order_tables(main());
  return *std::exchange(model_, nullptr);
}

void PipelineCore::attach(TrainModel& model) {
  check(model);
  model_ = &model;
  if (std::exchange(last_model_, &model) != &model) model_changed();
}

void PipelineCore::draw() {
  if (!drawn_ && source_ != nullptr) drawn_ = source_->next();
}

void PipelineCore::copy_next() {
  // A step that failed before forward is repeated: its copy is done.
  if (on_device() == depth_.most) return;
  draw();
  if (!drawn_) return;
  DeviceModelInput input = drawn_->to(*strategy_);
  // The pinned memory returns to its allocator now. The marker of the copy says when the host may
  // write to it again.
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
  // The exchange waits for the copy of its own batch, with every copy strategy. Without this edge
  // data-dist reads ids that are still being copied, which is a race of TorchRec's semi-sync with
  // in-place copies.
  flight.input.hand_to(exchange_on_);
  flight.exchange = environment_.exchange.start(flight.input.tensors(), exchange_on_);
}

void PipelineCore::receive(BatchInFlight& flight) {
  if (flight.received) return;
  flight.exchange->receive(options_.waits);
  flight.received = true;
  if (options_.savers.exchanged_inputs) flight.exchange->clear_inputs();
  // Released after a marker of the exchange's stream: the next copy into this memory then need not
  // wait for main.
  if (options_.savers.features) flight.input.release_features(exchange_on_.mark());
}

void PipelineCore::arrange(BatchInFlight& flight) {
  if (!flight.features) {
    flight.features = flight.exchange->arrange();
    flight.exchange.reset();
  }
  // With coarse waits, users wait for the whole stream of the exchange and need no event.
  const bool marked = coarse() || exchange_on_.id() == main().id() || flight.arranged.recorded();
  if (!marked) {
    main().device().record(flight.arranged, exchange_on_);
  }
}

void PipelineCore::finish_exchange(BatchInFlight& flight) {
  start(flight);
  receive(flight);
  if (!coarse()) arrange(flight);
}

bool PipelineCore::finish_oldest_exchange() {
  if (oldest() == nullptr) copy_next();
  if (oldest() == nullptr) return false;
  finish_exchange(*oldest());
  return true;
}

void PipelineCore::fill_two() {
  if (!finish_oldest_exchange()) return;
  if (second() == nullptr) defer_errors([&] { copy_next(); });
}

void PipelineCore::hand_features_to(BatchInFlight& flight, Stream& user) {
  arrange(flight);
  if (user.id() == exchange_on_.id()) return;
  if (coarse()) {
    user.wait_stream(exchange_on_);
  } else {
    user.wait(flight.arranged);
  }
  // The features were allocated on the exchange's stream.
  flight.features->record_use(user);
}

void PipelineCore::take_input(BatchInFlight& current) {
  if (coarse()) {
    current.input.record_use(main());
  } else {
    current.input.hand_to(main());
  }
}

// Orders the users of the tables. Users on one stream follow each other; a new stream waits for the
// one that used the tables last.
void PipelineCore::order_tables(Stream& stream) {
  if (stream.id() == tables_on_->id()) return;
  stream.wait_stream(*tables_on_);
  tables_on_ = &stream;
}

void PipelineCore::look_up(BatchInFlight& flight, Stream& stream) {
  if (flight.is_looked_up) return;
  order_tables(stream);
  notify_ranks_on_error([&] {
    if (flight.lookup) {
      model_->look_up_prefetched(*flight.lookup, stream);
    } else {
      flight.lookup = model_->look_up(*flight.features, stream);
    }
  });
  flight.is_looked_up = true;
}

void PipelineCore::prefetch(BatchInFlight& flight, Stream& stream) {
  if (flight.prefetched) return;
  order_tables(stream);
  flight.lookup = model_->prefetch(*flight.features, stream);
  flight.prefetched = true;
}

void PipelineCore::forward(BatchInFlight& current) {
  look_up(current, main());
  model_->forward(current.input.tensors(), *current.lookup);
  // Backward needs only what the model keeps, so this is the last use of the batch. With `precise`
  // the next copy into its memory waits for this marker.
  current.input.last_used(main().mark());
  // The lookup shares the features and keeps them until the update.
  current.features.reset();
  if (options_.savers.batch) release_input(current);
}

void PipelineCore::backward_and_update(BatchInFlight& current, Stream& stream) {
  model_->backward(*current.lookup);
  if (!model_->trains()) {
    current.lookup.reset();
    main().mark();
    return;
  }
  // The update reads the gradient that backward writes on main.
  if (stream.id() != main().id()) stream.wait_stream(main());
  order_tables(stream);
  model_->update_tables(*current.lookup, stream);
  current.lookup.reset();
  // Marks the end of backward. With another stream, its wait above has recorded it.
  if (stream.id() == main().id()) main().mark();
}

void PipelineCore::release_input(BatchInFlight& current) {
  current.input.release();
  current.released = true;
}

}  // namespace millrace
