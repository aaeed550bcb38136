#pragma once

#include <string>

namespace millrace::cli {

/**
 * @brief The text of a JSON result, indented by two spaces, with a line end.
 *
 * JSON must be UTF-8, but names of files and sinks may contain any bytes. Invalid bytes become
 * U+FFFD.
 */
template <typename Document>
[[nodiscard]] std::string json_text(const Document& document) {
  return document.dump(2, ' ', false, Document::error_handler_t::replace) + '\n';
}

}  // namespace millrace::cli
