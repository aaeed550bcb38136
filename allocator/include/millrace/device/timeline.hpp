#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/device/operation.hpp"

namespace millrace {

/** @brief The parts of a device that work at the same time. */
enum class Engine : unsigned char {
  compute,         ///< kernels, fills and copies on the device; many at once
  host_to_device,  ///< one copy at a time
  device_to_host,  ///< one copy at a time
  link,            ///< meetings with other devices; one at a time
  host,            ///< callbacks and host-to-host copies
  stream,          ///< records, waits, gates and pool operations: no engine at all
  count_
};

[[nodiscard]] const char* to_string(Engine engine) noexcept;

/** @brief An operation that a virtual device has run. Valid during the call that reports it. */
struct ExecutedOperation {
  std::string_view name;
  std::string_view stream_name;
  unsigned device = 0;
  std::uint64_t stream_id = 0;
  std::uint64_t index = 0;  ///< of all that was enqueued on the machine, in host order, from 0
  Engine engine = Engine::stream;
  Nanoseconds enqueued{0};  ///< the enqueuing actor's clock
  Nanoseconds begin{0};
  Nanoseconds end{0};
  std::span<const View> views;
  Cost cost;             ///< of a kernel, as it was declared
  Nanoseconds alone{0};  ///< how long it takes where nothing else runs
  /** Indices of what it had to wait for beside the operation before it on its stream: of a wait,
   * the record; all have ended, and may have been enqueued before this observer was set. */
  std::span<const std::uint64_t> after;
};

/** @brief Sees every operation when it ends, in that order. Must not call the device. */
class TimelineObserver {
 public:
  virtual ~TimelineObserver() = default;
  virtual void executed(const ExecutedOperation& operation) = 0;
};

}  // namespace millrace
