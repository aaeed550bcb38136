#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/**
 * @brief Every segment and block, and the statistics: docs/c-interface.md.
 *
 * The segments have the names of PyTorch's snapshots, so that its readers find their way.
 */
[[nodiscard]] nlohmann::json snapshot(DeviceMemory& memory);

/** @brief DeviceMemory::snapshot as a file, which PyTorch's viewer opens. */
[[nodiscard]] std::string pickled_snapshot(DeviceMemory& memory);

}  // namespace millrace
