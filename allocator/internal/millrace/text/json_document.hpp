#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace millrace::text {

/** @brief Bytes of a document that people write, at most. In memory it takes at most 30 times as
 * many. */
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

/** @brief The text of a document's file, of at most kLongestDocument bytes, or of a pipe.
 *  @throws std::invalid_argument with the file and why it cannot be read */
[[nodiscard]] std::string read_document(const std::filesystem::path& file);

}  // namespace millrace::text
