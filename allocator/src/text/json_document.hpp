#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace millrace::text {

/** @brief Of documents that people write. In memory one takes at most 30 times its length. */
inline constexpr std::size_t kLongestDocument = std::size_t{4} << 20;

/**
 * @brief Parses a document that is read as a whole. An object has each key once, a number is one
 * that a double can hold, and nesting is at most 64 deep.
 * @param origin  what the document is called
 * @param most    bytes
 * @throws std::invalid_argument: one line with the document, line and column, and what is wrong
 */
[[nodiscard]] nlohmann::json parse_document(std::string_view text, std::string_view origin,
                                            std::size_t most = kLongestDocument);

}  // namespace millrace::text
