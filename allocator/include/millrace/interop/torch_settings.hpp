#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/memory/policy.hpp"

namespace millrace {

/** @brief Millrace's settings from PyTorch's PYTORCH_ALLOC_CONF. docs/python.md lists the keys. */
struct TorchSettings {
  Policy policy;        ///< DeviceMemory::drop_in(), with the changes of the keys
  double fraction = 1;  ///< largest part of the GPU's memory that may be reserved
  std::string text;     ///< the configuration as it was given
  /// Keys without effect, because Millrace has no counterpart of their setting.
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
