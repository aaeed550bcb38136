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

/** @brief The streams of a loop, and how its parts allocate and enqueue on them. */
class LoopWork final : public CopyObserver {
 public:
  LoopWork(const LoopSetting& setting, const Workload& workload);

  PipelineStreams streams;
  std::optional<Stream> collective;  ///< of gathers and reductions, if the workload has some
  std::optional<Stream> offload;     ///< of activations that are copied to the host, likewise

  [[nodiscard]] const LoopSetting& setting() const noexcept { return setting_; }
  [[nodiscard]] PeakMeter& meter() noexcept { return meter_; }
  /** @brief Driver calls that measure or limit the loop, and so do not count as the loop's own. */
  [[nodiscard]] std::uint64_t overhead(Call call) const {
    return setting_.clock.own_calls(call) + limit_.own_calls(call);
  }

  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream, Tag tag) {
    return {setting_.allocator, bytes, stream, tag};
  }
  /** @brief Enqueues an operation. Empty views are left out. */
  void launch(const Stream& stream, std::string name, const Cost& cost, std::vector<View> views);

  /** @brief How many operations were launched on main. */
  [[nodiscard]] std::size_t pieces_on_main() const noexcept { return pieces_on_main_; }

  void copies_begin(Stream& stream) override;
  void copies_end(Stream& stream) override;

 private:
  LoopSetting setting_;
  PeakMeter meter_;
  LaunchLimit limit_;
  const Nanoseconds host_time_;  ///< of each operation that the host enqueues
  std::size_t pieces_on_main_ = 0;
};

}  // namespace millrace::experiment
