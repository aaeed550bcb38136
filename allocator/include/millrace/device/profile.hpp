#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace {

/** @brief How a driver's stream-ordered pool hands on freed memory: CUDA's four attributes. */
struct DriverPoolPolicy {
  bool follow_event_dependencies = true;    ///< across streams, where events order it
  bool allow_opportunistic = true;          ///< across streams, where the free has been executed
  bool allow_internal_dependencies = true;  ///< across streams, by a wait that the driver inserts
  std::size_t release_threshold = 0;        ///< bytes kept when a call synchronises
};

/**
 * @brief What a virtual device is a model of: every figure of the machine, with its source.
 *
 * Bandwidths in bytes/s, rates in operations/s. docs/virtual-device.md has the formulas that the
 * figures go into. In JSON each figure is `{"value": 55, "unit": "GB/s", "source": "..."}`; reading
 * is strict: an unknown or missing key, a wrong type or unit, a negative or non-finite value is
 * refused with the path of the key.
 */
struct DeviceProfile {
  std::string name;   ///< "h200"
  std::string title;  ///< "NVIDIA H200 SXM, 141 GB HBM3e"

  // Memory
  std::size_t memory_bytes = 0;
  std::size_t allocation_granularity = 0;
  bool free_synchronizes = true;  ///< the synchronous free waits for the device
  Nanoseconds page_time{0};       ///< to map or unmap each page, beside the call's own time

  // Copies
  double host_to_device = 0;    ///< pinned
  double device_to_host = 0;    ///< pinned
  double device_to_device = 0;  ///< bytes copied, not traffic
  double peer_to_peer = 0;      ///< to another device, one direction
  double pageable = 0;          ///< either direction, through the driver's staging
  Nanoseconds copy_latency{0};  ///< what each copy occupies its engine beside its bytes
  double pinning = 0;           ///< at which pinned memory is made, beside the call's own time
  unsigned copy_engines = 0;    ///< as the device reports it; the model uses one a direction

  // Kernels
  double memory_bandwidth = 0;      ///< traffic, read and written
  double flops = 0;                 ///< FP32, outside the tensor cores
  Nanoseconds launch_latency{0};    ///< from the end of the call to the start on an idle device
  Nanoseconds minimum_kernel{0};    ///< no kernel is shorter
  unsigned concurrent_kernels = 0;  ///< more of them wait

  // Ordering
  unsigned launch_queue_depth = 0;  ///< pending operations of a device before a call blocks
  Nanoseconds record_latency{0};    ///< what a record takes on its stream
  Nanoseconds wait_latency{0};      ///< from an event's completion to the start of what waits
  Nanoseconds callback_latency{0};  ///< from a callback's turn to its start on the host
  Nanoseconds wake_latency{0};      ///< from completion to the return of the call that waits

  // Driver's pool
  std::size_t pool_granularity = 0;  ///< by which the pool grows
  DriverPoolPolicy pool;

  /** @brief Host time of each kind of call, beside what it waits for. Indexed by `Call`. */
  std::array<Nanoseconds, static_cast<std::size_t>(Call::count_)> host_time{};

  /** @brief Where each figure is from, by its key path ("copy.host_to_device"). */
  std::map<std::string, std::string> sources;

  [[nodiscard]] Nanoseconds host(Call call) const noexcept {
    return host_time[static_cast<std::size_t>(call)];
  }

  /** @brief A profile that ships. @throws std::invalid_argument that names those that do */
  [[nodiscard]] static DeviceProfile named(std::string_view name);
  [[nodiscard]] static std::vector<std::string> names();

  /**
   * @param origin  what errors call the text (a file's name)
   * @throws std::invalid_argument with origin, key path, what was found and what was expected
   */
  [[nodiscard]] static DeviceProfile parse(std::string_view json, std::string_view origin);
  /** @throws std::invalid_argument as `parse`, and when the file can not be read */
  [[nodiscard]] static DeviceProfile load(const std::filesystem::path& file);

  /** @brief What `parse` reads, figures in base units, two spaces of indentation. */
  [[nodiscard]] std::string to_json() const;
};

}  // namespace millrace
