#pragma once

#include <cstdint>

namespace millrace {

/**
 * @brief How many forks lie between the first process and this one, of those since the first call.
 *
 * An object of CUDA belongs to the process in which this number was the same.
 */
[[nodiscard]] std::uint32_t forks() noexcept;

}  // namespace millrace
