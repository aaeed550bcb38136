#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/**
 * @brief Returns every segment and block, and the statistics (docs/c-interface.md).
 *
 * Segments have the keys of PyTorch's snapshots, which many readers know.
 */
[[nodiscard]] nlohmann::json snapshot(DeviceMemory& memory);

/** @brief Returns DeviceMemory::snapshot in the file format that PyTorch's viewer opens. */
[[nodiscard]] std::string pickled_snapshot(DeviceMemory& memory);

}  // namespace millrace
