#pragma once

#include <string>

namespace millrace::cli {

/** @brief A result as it is written. Names of files and sinks may be no UTF-8, which JSON has to
 *         be: what is none becomes U+FFFD. */
template <typename Document>
[[nodiscard]] std::string json_text(const Document& document) {
  return document.dump(2, ' ', false, Document::error_handler_t::replace) + '\n';
}

}  // namespace millrace::cli
