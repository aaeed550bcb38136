#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace {

/** @brief FP32 numbers of a model in device memory, or in pinned host memory: a tensor, or a rank's
 *         part of one. */
struct StateTensor {
  std::string name;  ///< "table.user.weights", "over.0.weight", ...
  float* data = nullptr;
  std::size_t size = 0;   ///< floats; a rank may have none of a tensor
  std::size_t first = 0;  ///< of a part: where it begins in the whole
  std::size_t whole = 0;  ///< of a part: floats of the whole; 0: this is all of it
  bool in_host_memory = false;

  [[nodiscard]] std::size_t whole_size() const noexcept { return whole == 0 ? size : whole; }
  /** @brief How it is copied from and to the host. */
  [[nodiscard]] CopyKind download() const noexcept {
    return in_host_memory ? CopyKind::host_to_host : CopyKind::device_to_host;
  }
  [[nodiscard]] CopyKind upload() const noexcept {
    return in_host_memory ? CopyKind::host_to_host : CopyKind::host_to_device;
  }
};

/** @brief A number of a model that the host keeps. */
struct StateCounter {
  std::string name;
  std::uint64_t* value = nullptr;
};

/** @brief Everything that a checkpoint of a model keeps, or what a rank has of it, in an order that
 *         depends on its configuration only. Valid as long as the model. */
struct ModelState {
  std::vector<StateTensor> tensors;
  std::vector<StateCounter> counters;
};

}  // namespace millrace
