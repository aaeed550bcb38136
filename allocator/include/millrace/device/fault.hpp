#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "millrace/device/device.hpp"

namespace millrace {

/**
 * @brief Makes calls of a device fail before they are made: what an error does to a program.
 *
 * Attached to the device for as long as it lives. Calls are counted from when a failure is asked
 * for: 1 is the next one. A `device_lost` is sticky: every later call fails with it as well.
 * Thread-safe.
 */
class FaultInjector final : public DeviceObserver {
 public:
  explicit FaultInjector(Device& device);
  ~FaultInjector() override;
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  /** @brief The `number`-th call of any kind fails, once. In place of an earlier such request. */
  void fail_call(std::uint64_t number, ErrorCode code);
  /** @brief The `number`-th call of this kind fails, once. In place of an earlier one for it. */
  void fail(Call kind, std::uint64_t number, ErrorCode code);
  /** @brief Every call of this kind fails. */
  void fail_each(Call kind, ErrorCode code);
  /** @brief Nothing fails any more, not even a device that was lost. */
  void clear();

  /** @brief How many calls have failed here so far. */
  [[nodiscard]] std::uint64_t injected() const;
  /** @brief How many calls have been made or failed here so far. */
  [[nodiscard]] std::uint64_t calls() const;

  void before(Call call) override;

 private:
  struct Planned {
    std::uint64_t left = 0;  ///< 0: each
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
