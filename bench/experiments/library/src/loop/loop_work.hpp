#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loop/launch_limit.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/experiment/training_loop.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/schedule/peak_meter.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::experiment {

[[nodiscard]] inline View reads(const Buffer& buffer) {
  return {buffer.data(), buffer.size(), Access::read};
}
[[nodiscard]] inline View reads(const BatchTensor& tensor) {
  return {tensor.data(), tensor.bytes(), Access::read};
}
[[nodiscard]] inline View writes(const BatchTensor& tensor) {
  return {tensor.data(), tensor.bytes(), Access::write};
}
[[nodiscard]] inline View writes(const Buffer& buffer) {
  return {buffer.data(), buffer.size(), Access::write};
}
[[nodiscard]] inline View updates(const Buffer& buffer) {
  return {buffer.data(), buffer.size(), Access::read_write};
}

/** @brief The streams of a loop. Its parts use this class to allocate memory and enqueue work. */
class LoopWork final : public CopyObserver {
 public:
  LoopWork(const LoopSetting& setting, const Workload& workload);

  PipelineStreams streams;
  std::optional<Stream> collective;  ///< for gathers and reductions, if the workload has any
  std::optional<Stream> offload;     ///< for copies of activations to the host, if it has any

  [[nodiscard]] const LoopSetting& setting() const noexcept { return setting_; }
  [[nodiscard]] PeakMeter& meter() noexcept { return meter_; }
  /** @brief Driver calls that measure or limit the loop. They do not count as calls of the loop. */
  [[nodiscard]] std::uint64_t overhead(Call call) const {
    return setting_.clock.own_calls(call) + limit_.own_calls(call);
  }

  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream, Tag tag) {
    return {setting_.allocator, bytes, stream, tag};
  }
  /** @brief Enqueues an operation. Empty views are ignored. */
  void launch(const Stream& stream, std::string name, const Cost& cost, std::vector<View> views);

  /** @brief Number of operations launched on main. */
  [[nodiscard]] std::size_t pieces_on_main() const noexcept { return pieces_on_main_; }

  void copies_begin(Stream& stream) override;
  void copies_end(Stream& stream) override;

 private:
  LoopSetting setting_;
  PeakMeter meter_;
  LaunchLimit limit_;
  const Nanoseconds host_time_;  ///< host time per enqueued operation
  std::size_t pieces_on_main_ = 0;
};

}  // namespace millrace::experiment
