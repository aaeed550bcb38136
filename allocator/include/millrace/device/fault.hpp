#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "millrace/device/device.hpp"

namespace millrace {

/**
 * @brief Makes calls of a device fail, to test how a program handles errors.
 *
 * The object observes the device while it lives. A call that fails is not made. Calls are numbered
 * from the request: 1 is the next call. `device_lost` is sticky: every later call fails with it
 * too. Thread-safe.
 */
class FaultInjector final : public DeviceObserver {
 public:
  /** @brief Starts to observe `device`, which must outlive this object. No call fails yet. */
  explicit FaultInjector(Device& device);
  ~FaultInjector() override;
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  /** @brief Makes the `number`-th call of any kind fail once. Replaces an earlier such request. */
  void fail_call(std::uint64_t number, ErrorCode code);
  /** @brief Makes the `number`-th call of `kind` fail once. Replaces an earlier request for it. */
  void fail(Call kind, std::uint64_t number, ErrorCode code);
  /** @brief Makes every call of `kind` fail. */
  void fail_each(Call kind, ErrorCode code);
  /** @brief Removes all requests, and revives a device that was lost. */
  void clear();

  /** @brief Returns the number of calls that this object made fail so far. */
  [[nodiscard]] std::uint64_t injected() const;
  /** @brief Returns the number of calls so far, successful or failed. */
  [[nodiscard]] std::uint64_t calls() const;

  void before(Call call) override;

 private:
  struct Planned {
    std::uint64_t left = 0;  ///< calls until the failure; 0: every call fails
    ErrorCode code = ErrorCode::unknown;
  };

  [[nodiscard]] std::optional<ErrorCode> due(Call call);
  static void count_down(std::optional<Planned>& plan, std::optional<ErrorCode>& due);

  Device& device_;
  mutable std::mutex mutex_;
  std::optional<Planned> any_;
  std::array<std::optional<Planned>, static_cast<std::size_t>(Call::count_)> of_kind_;
  bool lost_ = false;
  std::uint64_t injected_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace millrace
