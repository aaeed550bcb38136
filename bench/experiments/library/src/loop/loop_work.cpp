#include "loop/loop_work.hpp"

#include <utility>

namespace millrace::experiment {

LoopWork::LoopWork(const LoopSetting& setting, const Workload& workload)
    : streams(setting.device, workload.shape),
      setting_(setting),
      meter_(setting.allocator, setting.batches),
      limit_(setting.device.device(), setting.most_launches_ahead),
      host_time_(static_cast<Nanoseconds::rep>(workload.host_us * 1e3)) {
  if (workload.gathered > 0)
    collective.emplace(setting.device, StreamOptions{.name = "collective"});
  if (workload.offload_every > 0) offload.emplace(setting.device, StreamOptions{.name = "offload"});
}

void LoopWork::launch(const Stream& stream, std::string name, const Cost& cost,
                      std::vector<View> views) {
  std::erase_if(views, [](const View& view) { return view.bytes == 0; });
  meter_.sample();
  if (host_time_.count() > 0 && setting_.host != nullptr) setting_.host->spend(host_time_);
  limit_.before_launch();
  const bool timed = stream.id() == streams.main.id();
  if (timed) setting_.clock.begin(Lane::main, stream.handle());
  setting_.device.device().launch({std::move(name), std::move(views), cost, {}, {}},
                                  stream.handle());
  if (timed) setting_.clock.end(Lane::main, stream.handle());
  limit_.launched(stream.handle());
  if (timed) ++pieces_on_main_;
}

void LoopWork::copies_begin(Stream& stream) {
  meter_.sample();
  setting_.clock.begin(Lane::copy, stream.handle());
}

void LoopWork::copies_end(Stream& stream) { setting_.clock.end(Lane::copy, stream.handle()); }

}  // namespace millrace::experiment
