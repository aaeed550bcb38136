#include "millrace/pipeline/schedule/run_timeline.hpp"

#include <array>

#include "millrace/pipeline/schedule/run_device.hpp"

namespace millrace {

RunTimeline::RunTimeline(Timeline* timeline, const RunNotes& notes, VirtualMachine* machine,
                         std::span<Device* const> devices)
    : timeline_(timeline) {
  if (timeline_ == nullptr) return;
  timeline_->note("device", notes.device);
  timeline_->note("times", notes.modeled ? "modeled" : "measured");
  timeline_->note("allocator", notes.allocator);
  timeline_->note("strategy", to_string(notes.copy));
  for (const auto& [key, value] : notes.more) timeline_->note(key, value);
  if (machine != nullptr) timeline_->attach(*machine);
  for (Device* const device : devices) timeline_->attach(*device);
}

RunTimeline::RunTimeline(Timeline* timeline, RunDevice& device, std::string allocator,
                         CopyMethod copy)
    : RunTimeline(timeline,
                  {.device = std::string{device.device().name()},
                   .modeled = device.device().modeled(),
                   .allocator = std::move(allocator),
                   .copy = copy},
                  device.machine(), std::array{&device.device()}) {}

RunTimeline::~RunTimeline() {
  if (timeline_ != nullptr) timeline_->stop();
}

}  // namespace millrace
