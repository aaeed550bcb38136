#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/schedule/training_loop.hpp"
#include "schedule/peak_meter.hpp"

namespace millrace {

[[nodiscard]] inline View reads(const Buffer& buffer) {
  return {buffer.data(), buffer.size(), Access::read};
}
[[nodiscard]] inline View reads(const DeviceTensor& tensor) {
  return {tensor.data, tensor.bytes, Access::read};
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
  LoopWork(const LoopSetting& setting, LoopShape shape);

  Stream main, copy, data_dist;

  [[nodiscard]] const LoopSetting& setting() const noexcept { return setting_; }
  [[nodiscard]] PeakMeter& meter() noexcept { return meter_; }

  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream) {
    return {setting_.allocator, bytes, stream};
  }
  /** @brief Enqueues an operation; views of nothing are left out. */
  void launch(const Stream& stream, std::string name, const Cost& cost, std::vector<View> views);

  /** @brief How many operations were launched on main. */
  [[nodiscard]] std::size_t pieces_on_main() const noexcept { return pieces_on_main_; }

  void copies_begin(Stream& stream) override;
  void copies_end(Stream& stream) override;

 private:
  LoopSetting setting_;
  PeakMeter meter_;
  std::size_t pieces_on_main_ = 0;
};

}  // namespace millrace
