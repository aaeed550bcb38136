#pragma once

#include <cstdint>

namespace millrace {

/**
 * @brief Returns how many forks, since the first call, lie between the first process and this one.
 *
 * CUDA objects do not survive a fork: an object that was made while this number was different
 * belongs to another process.
 */
[[nodiscard]] std::uint32_t forks() noexcept;

}  // namespace millrace
