#include "loop/loop_recorder.hpp"

#include <algorithm>

namespace millrace::experiment {

LoopRecorder::Calls LoopRecorder::calls() const {
  const Device& device = work_.setting().device.device();
  Calls calls{};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call call = static_cast<Call>(i);
    calls[i] = device.calls(call) - work_.overhead(call);
  }
  return calls;
}

void LoopRecorder::step_ended(std::size_t held) {
  main_work_.push_back(work_.pieces_on_main());
  at_rest_ = std::max(at_rest_, held);
  calls_at_end_ = calls();
  if (main_work_.size() == warm_up_) {
    calls_at_start_ = calls_at_end_;
    work_.meter().open_window();
  }
  if (Timeline* const timeline = work_.setting().timeline) timeline->sample();
  if (main_work_.size() > warm_up_) {
    usable_.push_back(work_.setting().allocator.usable(work_.streams.main));
  }
}

LoopReport LoopRecorder::report(std::size_t at_peak) {
  const LoopSetting& setting = work_.setting();
  LoopReport report;
  report.whole = work_.meter().whole();
  report.window = work_.meter().window();
  setting.device.synchronize();

  const std::vector<TimeSpan> main = setting.clock.times(Lane::main);
  const auto end_of = [&](std::size_t step) { return main[main_work_[step] - 1].end; };
  for (std::size_t step = warm_up_; step < main_work_.size(); ++step) {
    report.steps.push_back(end_of(step) - end_of(step - 1));
  }
  const auto steps = static_cast<Nanoseconds::rep>(report.steps.size());
  const TimeSpan window{end_of(warm_up_ - 1), end_of(main_work_.size() - 1)};
  report.mean_step = (window.end - window.begin) / steps;

  const Exposure copies = exposure(setting.clock.times(Lane::copy), main, window);
  report.copy_per_step = copies.copies / steps;
  if (copies.copies.count() > 0) {
    report.h2d_hidden = 1 - static_cast<double>(copies.exposed.count()) /
                                static_cast<double>(copies.copies.count());
  }
  for (std::size_t i = 0; i < calls_at_end_.size(); ++i) {
    report.calls_per_step[i] =
        static_cast<double>(calls_at_end_[i] - calls_at_start_[i]) / static_cast<double>(steps);
  }
  for (const UsableBytes& usable : usable_) {
    report.stranded_peak = std::max(report.stranded_peak, usable.stranded);
    report.stranded_mean += static_cast<double>(usable.stranded) / static_cast<double>(steps);
    report.fragmentation_mean += usable.fragmentation() / static_cast<double>(steps);
  }
  report.batches_at_rest = at_rest_;
  report.batches_at_peak = at_peak;
  for (const Stream* const stream :
       {&work_.streams.main, &work_.streams.copy, &work_.streams.data_dist}) {
    report.streams[stream->id()] = setting.device.name(stream->id());
  }
  for (const auto& further : {&work_.collective, &work_.offload}) {
    if (*further) report.streams[(*further)->id()] = setting.device.name((*further)->id());
  }
  return report;
}

}  // namespace millrace::experiment
