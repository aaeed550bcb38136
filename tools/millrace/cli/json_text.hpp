#pragma once

#include <string>

namespace millrace::cli {

/**
 * @brief The text of a JSON result, indented by two, with a line end.
 *
 * JSON has to be UTF-8, but names of files and sinks may be any bytes: what is not UTF-8 becomes
 * U+FFFD.
 */
template <typename Document>
[[nodiscard]] std::string json_text(const Document& document) {
  return document.dump(2, ' ', false, Document::error_handler_t::replace) + '\n';
}

}  // namespace millrace::cli
