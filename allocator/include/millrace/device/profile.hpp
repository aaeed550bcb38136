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

/** @brief How a driver's stream-ordered pool reuses freed memory: CUDA's four attributes. */
struct DriverPoolPolicy {
  bool follow_event_dependencies = true;    ///< reuse on another stream that events order after
  bool allow_opportunistic = true;          ///< reuse on another stream once the free has run
  bool allow_internal_dependencies = true;  ///< reuse on another stream after an inserted wait
  std::size_t release_threshold = 0;        ///< bytes that the pool keeps at a synchronization
};

/**
 * @brief Facts about a GPU's chip that a program can query. The virtual CUDA runtime reports them;
 *        no modeled time depends on them.
 */
struct ChipFacts {
  unsigned compute_major = 0;     ///< compute capability, before the dot
  unsigned compute_minor = 0;     ///< after the dot
  unsigned multiprocessors = 0;   ///< SMs that the product has enabled
  std::size_t l2_bytes = 0;       ///< size of the L2 cache
  std::size_t shared_memory = 0;  ///< bytes of shared memory of one multiprocessor
  unsigned memory_bus = 0;        ///< width in bits
  double clock = 0;               ///< highest clock of a multiprocessor, in Hz
  double memory_clock = 0;        ///< in Hz; memory transfers twice per clock
};

/**
 * @brief The figures of a machine that a virtual device models, each with its source.
 *
 * Bandwidths are in bytes/s, rates in operations/s, clocks in Hz. docs/virtual-device.md has the
 * formulas. In JSON each figure is `{"value": 55, "unit": "GB/s", "source": "..."}`. Reading is
 * strict: an unknown or missing key, a wrong type or unit, and a negative or non-finite value are
 * errors that name the path of the key.
 */
struct DeviceProfile {
  std::string name;   ///< "h200"
  std::string title;  ///< "NVIDIA H200 SXM, 141 GB HBM3e"

  ChipFacts chip;

  // Memory
  std::size_t memory_bytes = 0;
  std::size_t allocation_granularity = 0;
  bool free_synchronizes = true;  ///< whether the synchronous free waits for the device
  Nanoseconds page_time{0};       ///< to map or unmap one page, in addition to the call's time
  Nanoseconds alias_time{0};      ///< to map one page at a second address, in place of page_time

  // Copies
  double host_to_device = 0;    ///< from pinned memory
  double device_to_host = 0;    ///< to pinned memory
  double device_to_device = 0;  ///< bytes copied (the memory traffic is twice that)
  double peer_to_peer = 0;      ///< to another device, in one direction
  double pageable = 0;          ///< pageable memory, either direction, through driver staging
  Nanoseconds copy_latency{0};  ///< engine time of each copy, in addition to its bytes
  double pinning = 0;         ///< rate of allocating pinned memory, in addition to the call's time
  unsigned copy_engines = 0;  ///< as the device reports; the model uses one per direction

  // Kernels
  double memory_bandwidth = 0;      ///< bytes read and written
  double flops = 0;                 ///< FP32, outside the tensor cores
  Nanoseconds launch_latency{0};    ///< from the return of the call to the start on an idle device
  Nanoseconds minimum_kernel{0};    ///< minimum time of a kernel
  unsigned concurrent_kernels = 0;  ///< maximum number of kernels that run at the same time

  // Ordering
  unsigned launch_queue_depth = 0;  ///< pending operations of a device before a call blocks
  Nanoseconds record_latency{0};    ///< time of a record on its stream
  Nanoseconds wait_latency{0};      ///< from an event's completion to the start of waiting work
  Nanoseconds callback_latency{0};  ///< from a callback's turn to its start on the host
  Nanoseconds wake_latency{0};      ///< from completion to the return of a waiting host call

  // Driver's pool
  std::size_t pool_granularity = 0;  ///< unit in which the pool grows
  DriverPoolPolicy pool;

  /** @brief Host time of each kind of call, without the time that it waits. Indexed by `Call`. */
  std::array<Nanoseconds, static_cast<std::size_t>(Call::count_)> host_time{};

  /** @brief The source of each figure, by key path ("copy.host_to_device"). */
  std::map<std::string, std::string> sources;

  /** @brief Returns the host time of a call of this kind. */
  [[nodiscard]] Nanoseconds host(Call call) const noexcept {
    return host_time[static_cast<std::size_t>(call)];
  }

  /**
   * @brief Returns a built-in profile.
   * @throws std::invalid_argument for an unknown name; the message lists the built-in profiles
   */
  [[nodiscard]] static DeviceProfile named(std::string_view name);
  /** @brief Returns the names of the built-in profiles. */
  [[nodiscard]] static std::vector<std::string> names();

  /**
   * @brief Parses a profile.
   * @param json    the text
   * @param origin  name of the text in errors (for instance a file name)
   * @throws std::invalid_argument with the origin, the key path, the value found and the one
   *         expected
   */
  [[nodiscard]] static DeviceProfile parse(std::string_view json, std::string_view origin);
  /**
   * @brief Reads a profile from a file.
   * @throws std::invalid_argument like `parse`, or if the file cannot be read
   */
  [[nodiscard]] static DeviceProfile load(const std::filesystem::path& file);

  /** @brief Returns the profile in the format of `parse`: base units, indented by two spaces. */
  [[nodiscard]] std::string to_json() const;
};

}  // namespace millrace
