#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::experiment {

/**
 * @brief Limits how many launches the host is ahead, on a device whose queue has no settable
 * length.
 *
 * The ledger does not see its events, as they order nothing that an allocator could use.
 */
class LaunchLimit {
 public:
  /** @param most  launches that may be pending; 0: any number */
  LaunchLimit(Device& device, unsigned most) : device_(device), most_(most) {}
  ~LaunchLimit();
  LaunchLimit(const LaunchLimit&) = delete;
  LaunchLimit& operator=(const LaunchLimit&) = delete;

  /** @brief Call it before a launch. Waits until fewer than `most` launches are pending. */
  void before_launch();
  void launched(StreamHandle stream);
  /** @brief Driver calls that this object has made. */
  [[nodiscard]] std::uint64_t own_calls(Call call) const noexcept;

 private:
  Device& device_;
  const unsigned most_;
  std::deque<EventHandle> pending_;
  std::vector<EventHandle> idle_;
  std::uint64_t created_ = 0, recorded_ = 0, waited_ = 0;
};

}  // namespace millrace::experiment
