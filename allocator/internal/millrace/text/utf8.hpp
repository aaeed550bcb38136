#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace::text {

/** @brief How many bytes the character at the beginning has, by RFC 3629 (no surrogates, nothing in
 * more bytes than it needs); 0 if none begins there. */
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

/** @brief Writes up to 4 bytes. Surrogates are written as if they were characters.
 * @return the end of what was written */
char* write_utf8(std::uint32_t code_point, char* out) noexcept;

}  // namespace millrace::text
