#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/device/operation.hpp"

namespace millrace {

/** @brief The parts of a device that work at the same time. */
enum class Engine : unsigned char {
  compute,         ///< kernels, fills and copies on the device; several at a time
  host_to_device,  ///< one copy at a time
  device_to_host,  ///< one copy at a time
  link,            ///< meetings with other devices; one at a time
  host,            ///< callbacks and host-to-host copies
  stream,          ///< records, waits, gates and pool operations, which use no engine
  count_
};

[[nodiscard]] const char* to_string(Engine engine) noexcept;

/** @brief An operation that a virtual device has run. Valid only during the call `executed`. */
struct ExecutedOperation {
  std::string_view name;
  std::string_view stream_name;
  unsigned device = 0;
  std::uint64_t stream_id = 0;
  std::uint64_t index = 0;  ///< number in the host order of all enqueued operations, from 0
  Engine engine = Engine::stream;
  Nanoseconds enqueued{0};  ///< on the clock of the actor that enqueued it
  Nanoseconds begin{0};
  Nanoseconds end{0};
  std::span<const View> views;
  Cost cost;             ///< declared cost of a kernel
  Nanoseconds alone{0};  ///< the time that it takes if nothing else runs
  /// Indices of the operations that it waited for, other than the previous one on its stream: for a
  /// wait, the record. All of them have ended. They may be older than this observer.
  std::span<const std::uint64_t> after;
};

/** @brief Receives each operation when it ends, in order of the ends. Must not call the device. */
class TimelineObserver {
 public:
  virtual ~TimelineObserver() = default;
  virtual void executed(const ExecutedOperation& operation) = 0;
};

}  // namespace millrace
