#pragma once

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/** @brief The default memory, if it is there already; makes none. */
[[nodiscard]] DeviceMemory* find_default_memory(int device_id);

/** @brief Whether this is a forked child of a process that has made default memory. */
[[nodiscard]] bool default_memory_is_of_parent() noexcept;

}  // namespace millrace
