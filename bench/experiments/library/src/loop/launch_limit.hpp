#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::experiment {

/**
 * @brief Limits the host's run-ahead in launches, for a device whose queue length cannot be set.
 *
 * The ledger does not see the events of this class, because an allocator cannot use their order.
 */
class LaunchLimit {
 public:
  /** @param most  maximum number of pending launches; 0: no limit */
  LaunchLimit(Device& device, unsigned most) : device_(device), most_(most) {}
  ~LaunchLimit();
  LaunchLimit(const LaunchLimit&) = delete;
  LaunchLimit& operator=(const LaunchLimit&) = delete;

  /** @brief Call it before a launch. Waits until fewer than `most` launches are pending. */
  void before_launch();
  void launched(StreamHandle stream);
  /** @brief Number of driver calls of this object. */
  [[nodiscard]] std::uint64_t own_calls(Call call) const noexcept;

 private:
  Device& device_;
  const unsigned most_;
  std::deque<EventHandle> pending_;
  std::vector<EventHandle> idle_;
  std::uint64_t created_ = 0, recorded_ = 0, waited_ = 0;
};

}  // namespace millrace::experiment
