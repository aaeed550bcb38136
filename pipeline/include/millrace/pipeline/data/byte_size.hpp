#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/**
 * @brief Reads a size as people write it: "512", "64KiB", "1GiB", "1.5 GB".
 *
 * Units: B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024), in any case.
 * Without a unit: bytes. The result is rounded to whole bytes.
 * @throws std::invalid_argument that says what was given and what would be right
 */
[[nodiscard]] std::size_t parse_bytes(std::string_view text);

/** @brief For people: "0 B", "1.50 GiB", "512.00 MiB". */
[[nodiscard]] std::string format_bytes(std::size_t bytes);

}  // namespace millrace
