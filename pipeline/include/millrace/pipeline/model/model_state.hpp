#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace {

/** @brief A tensor of a model, or a rank's part of one: FP32 numbers in device memory or in pinned
 *         host memory. */
struct StateTensor {
  std::string name;  ///< "table.user.weights", "over.0.weight", ...
  float* data = nullptr;
  std::size_t size = 0;   ///< number of floats here; may be 0 on a rank
  std::size_t first = 0;  ///< for a part: index of its first float in the whole tensor
  std::size_t whole = 0;  ///< for a part: number of floats of the whole tensor; 0: not a part
  bool in_host_memory = false;

  [[nodiscard]] std::size_t whole_size() const noexcept { return whole == 0 ? size : whole; }
  /** @brief The kind of a copy to the host. */
  [[nodiscard]] CopyKind download() const noexcept {
    return in_host_memory ? CopyKind::host_to_host : CopyKind::device_to_host;
  }
  /** @brief The kind of a copy from the host. */
  [[nodiscard]] CopyKind upload() const noexcept {
    return in_host_memory ? CopyKind::host_to_host : CopyKind::host_to_device;
  }
};

/** @brief A number of a model that is in host memory, for instance a count of steps. */
struct StateCounter {
  std::string name;
  std::uint64_t* value = nullptr;
};

/**
 * @brief The state of a model for a checkpoint, or a rank's part of it. Valid as long as the model.
 *
 * The order depends only on the model's configuration.
 */
struct ModelState {
  std::vector<StateTensor> tensors;
  std::vector<StateCounter> counters;
};

}  // namespace millrace
