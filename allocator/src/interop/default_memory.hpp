#pragma once

#include <memory>
#include <vector>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/** @brief The default memory, if it is there already; makes none. */
[[nodiscard]] DeviceMemory* find_default_memory(int device_id);

/** @brief The default memories that are there: those of the thread's scopes first. */
[[nodiscard]] std::vector<DeviceMemory*> default_memories();

/**
 * @brief Makes `memory` the default of its GPU for the whole process, if there is none yet.
 * @return whether it is the default now; the process then owns it, and never destroys it
 */
bool adopt_default_memory(std::unique_ptr<DeviceMemory>& memory);

/** @brief Whether this is a forked child of a process that has made default memory. */
[[nodiscard]] bool default_memory_is_of_parent() noexcept;

}  // namespace millrace
