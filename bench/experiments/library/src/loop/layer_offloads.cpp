#include "loop/layer_offloads.hpp"

#include <utility>

namespace millrace::experiment {

LayerOffloads::LayerOffloads(LoopWork& work, const Workload& workload, std::size_t layers)
    : work_(work),
      workload_(workload),
      host_tag_(work.setting().pinned.tag("offloaded")),
      tag_(work.setting().allocator.tag("offloaded")),
      layers_(layers) {}

void LayerOffloads::follow_main() {
  OrderedDevice& device = work_.setting().device;
  Event passed;
  device.record(passed, work_.streams.main);
  device.wait(*work_.offload, passed);
}

void LayerOffloads::copy(const Buffer& to, const Buffer& from, CopyKind kind) {
  if (from.size() == 0) return;
  work_.setting().device.device().copy(to.data(), from.data(), from.size(), kind,
                                       work_.offload->handle());
}

void LayerOffloads::store(std::size_t layer, KeptLayer& kept) {
  if (!offloads(layer)) return;
  Offloaded& stored = layers_[layer];
  Allocator& pinned = work_.setting().pinned;
  stored.host_output = Buffer{pinned, kept.output.size(), *work_.offload, host_tag_};
  stored.host_mask = Buffer{pinned, kept.mask.size(), *work_.offload, host_tag_};
  follow_main();
  copy(stored.host_output, kept.output, CopyKind::device_to_host);
  copy(stored.host_mask, kept.mask, CopyKind::device_to_host);
  for (Buffer* const used : {&kept.output, &kept.mask})
    if (*used) used->record_use(*work_.offload);
}

void LayerOffloads::fetch(Offloaded& layer) {
  if (!layer.host_output && !layer.host_mask) return;
  follow_main();
  layer.back.output = work_.allocate(layer.host_output.size(), *work_.offload, tag_);
  layer.back.mask = work_.allocate(layer.host_mask.size(), *work_.offload, tag_);
  copy(layer.back.output, layer.host_output, CopyKind::host_to_device);
  copy(layer.back.mask, layer.host_mask, CopyKind::host_to_device);
  layer.host_output.reset();  // before the event, which then covers these frees
  layer.host_mask.reset();
  work_.setting().device.record(layer.is_back, *work_.offload);
}

void LayerOffloads::fetch_for(std::size_t layer) {
  if (workload_.offload_every == 0) return;
  const std::size_t most = layer + 1;  // backward of a layer also needs the layer's input
  for (std::size_t ahead = 0; ahead <= workload_.offloads_ahead + 1 && ahead < most; ++ahead)
    fetch(layers_[layer - ahead]);
}

KeptLayer LayerOffloads::take(std::size_t layer) {
  Offloaded& taken = layers_[layer];
  fetch(taken);  // not fetched ahead, for example when layers are recomputed
  if (!taken.back.output && !taken.back.mask) return {};
  work_.setting().device.wait(work_.streams.main, taken.is_back);
  for (Buffer* const used : {&taken.back.output, &taken.back.mask})
    if (*used) used->record_use(work_.streams.main);
  return std::exchange(taken.back, {});
}

void LayerOffloads::abandon() noexcept {
  for (Offloaded& layer : layers_) {
    layer.host_output.reset();
    layer.host_mask.reset();
    layer.back = {};
  }
}

}  // namespace millrace::experiment
