#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::experiment {

/**
 * @brief Keeps the host at most so many launches ahead, on a device whose queue can not be set.
 *
 * Its events are not told to the ledger: they order nothing that an allocator could use.
 */
class LaunchLimit {
 public:
  /** @param most  launches that may be pending; 0: any number */
  LaunchLimit(Device& device, unsigned most) : device_(device), most_(most) {}
  ~LaunchLimit();
  LaunchLimit(const LaunchLimit&) = delete;
  LaunchLimit& operator=(const LaunchLimit&) = delete;

  /** @brief Before a launch: waits until it would be one of the `most` pending ones. */
  void before_launch();
  void launched(StreamHandle stream);
  /** @brief Driver calls that this has made. */
  [[nodiscard]] std::uint64_t own_calls(Call call) const noexcept;

 private:
  Device& device_;
  const unsigned most_;
  std::deque<EventHandle> pending_;
  std::vector<EventHandle> idle_;
  std::uint64_t created_ = 0, recorded_ = 0, waited_ = 0;
};

}  // namespace millrace::experiment
