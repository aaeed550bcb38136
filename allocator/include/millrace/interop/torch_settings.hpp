#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/memory/policy.hpp"

namespace millrace {

/** @brief What PyTorch's PYTORCH_ALLOC_CONF means for Millrace. docs/python.md has the keys. */
struct TorchSettings {
  Policy policy;        ///< DeviceMemory::drop_in(), as the keys change it
  double fraction = 1;  ///< of the GPU's memory, the most that may be reserved
  std::string text;     ///< the configuration as it was given
  /// Keys that change nothing, since Millrace has no counterpart of what they tune.
  std::vector<std::string> without_effect;

  TorchSettings();

  /**
   * @brief Reads `key:value,key:value`.
   * @throws std::invalid_argument that names the key which is unknown, wrong, or refused
   */
  [[nodiscard]] static TorchSettings parse(std::string_view text);

  /**
   * @brief Reads PYTORCH_CUDA_ALLOC_CONF or, if that is not set, PYTORCH_ALLOC_CONF.
   * @throws std::invalid_argument that names the variable
   */
  [[nodiscard]] static TorchSettings from_environment();
};

}  // namespace millrace
