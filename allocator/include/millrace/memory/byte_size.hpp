#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/**
 * @brief Parses a size such as "512", "64KiB", "1GiB" or "1.5 GB".
 *
 * Units: B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024), in upper or
 * lower case. A number without a unit is in bytes.
 * @param text  the size
 * @return bytes, rounded to a whole number
 * @throws std::invalid_argument with the text and the expected form
 */
[[nodiscard]] std::size_t parse_bytes(std::string_view text);

/** @brief Formats a size for people: "0 B", "1.50 GiB", "512.00 MiB". */
[[nodiscard]] std::string format_bytes(std::size_t bytes);

}  // namespace millrace
