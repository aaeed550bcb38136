#include "loop/layer_gathers.hpp"

#include <utility>

#include "loop/modeled_exchange.hpp"

namespace millrace::experiment {

LayerGathers::LayerGathers(LoopWork& work, const Workload& workload, std::size_t layers)
    : work_(work),
      workload_(workload),
      bytes_(workload.gathered / layers),
      layers_(layers),
      tag_(work.setting().allocator.tag("gathered")) {}

void LayerGathers::follow_main() {
  OrderedDevice& device = work_.setting().device;
  Event passed;
  device.record(passed, work_.streams.main);
  device.wait(*work_.collective, passed);
}

void LayerGathers::begin(const Buffer& shards) {
  if (bytes_ == 0) return;
  abandon();
  follow_main();
  while (begun_ < layers_ && begun_ <= workload_.gathers_ahead) gather(shards);
}

void LayerGathers::gather(const Buffer& shards) {
  Gathered& gathered = gathered_.emplace_back();
  gathered.parameters = work_.allocate(bytes_, *work_.collective, tag_);
  work_.launch(*work_.collective, "gather layer", link_cost(workload_, bytes_),
               {reads(shards), writes(gathered.parameters)});
  work_.setting().device.record(gathered.ready, *work_.collective);
  ++begun_;
}

const Buffer& LayerGathers::next() {
  static const Buffer nothing;
  if (bytes_ == 0) return nothing;
  Gathered& gathered = gathered_.front();
  work_.setting().device.wait(work_.streams.main, gathered.ready);
  gathered.parameters.record_use(work_.streams.main);
  return gathered.parameters;
}

void LayerGathers::used(const Buffer& shards) {
  if (bytes_ == 0) return;
  gathered_.pop_front();
  if (begun_ == layers_) return;
  follow_main();
  gather(shards);
}

Buffer LayerGathers::gradient() {
  return bytes_ == 0 ? Buffer{} : work_.allocate(bytes_, work_.streams.main, tag_);
}

void LayerGathers::reduce(Buffer gradient, const Buffer& part) {
  if (!gradient) return;
  follow_main();
  work_.launch(*work_.collective, "reduce layer", link_cost(workload_, bytes_),
               {reads(gradient), updates(part)});
  gradient.record_use(*work_.collective);
}

void LayerGathers::join() {
  if (bytes_ == 0) return;
  OrderedDevice& device = work_.setting().device;
  Event reduced;
  device.record(reduced, *work_.collective);
  device.wait(work_.streams.main, reduced);
}

void LayerGathers::abandon() noexcept {
  gathered_.clear();
  begun_ = 0;
}

}  // namespace millrace::experiment
