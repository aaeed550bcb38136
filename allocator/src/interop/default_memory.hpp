#pragma once

#include <memory>
#include <vector>

#include "millrace/interop/device_memory.hpp"

namespace millrace {

/** @brief Returns the GPU's default memory, or nullptr if none was made yet. Makes none. */
[[nodiscard]] DeviceMemory* find_default_memory(int device_id);

/** @brief Returns the default memories that exist, those of the calling thread's scopes first. */
[[nodiscard]] std::vector<DeviceMemory*> default_memories();

/**
 * @brief Makes `memory` the process's default for its GPU, unless the GPU has one already.
 * @return whether it is the default now. If so, the process owns it and never destroys it.
 */
bool adopt_default_memory(std::unique_ptr<DeviceMemory>& memory);

/** @brief Returns whether this process was forked from one that has made default memory. */
[[nodiscard]] bool default_memory_is_of_parent() noexcept;

}  // namespace millrace
