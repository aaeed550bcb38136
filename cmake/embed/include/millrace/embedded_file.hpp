#pragma once

#include <string_view>

namespace millrace {

/// A text file that was embedded into the library at build time.
struct EmbeddedFile {
  std::string_view name;  ///< without folder and extension
  std::string_view text;
};

}  // namespace millrace
