#pragma once

#include <vector>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/** @brief The default memory, if it is there already; makes none. */
[[nodiscard]] DeviceMemory* find_default_memory(int device_id);

/** @brief The default memories that are there: those of the thread's scopes first. */
[[nodiscard]] std::vector<DeviceMemory*> default_memories();

/** @brief Whether this is a forked child of a process that has made default memory. */
[[nodiscard]] bool default_memory_is_of_parent() noexcept;

}  // namespace millrace
