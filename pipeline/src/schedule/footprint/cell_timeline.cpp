#include "schedule/footprint/cell_timeline.hpp"

namespace millrace {

CellTimeline::CellTimeline(Timeline* timeline, CellDevice& device, std::string_view allocator,
                           CopyMethod method)
    : timeline_(timeline) {
  if (timeline_ == nullptr) return;
  timeline_->note("device", device.device().name());
  timeline_->note("times", device.device().modelled() ? "modelled" : "measured");
  timeline_->note("allocator", allocator);
  timeline_->note("strategy", to_string(method));
  device.attach(*timeline_);
}

CellTimeline::~CellTimeline() {
  if (timeline_ != nullptr) timeline_->stop();
}

}  // namespace millrace
