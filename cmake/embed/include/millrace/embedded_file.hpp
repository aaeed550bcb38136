#pragma once

#include <string_view>

namespace millrace {

/// A text file that was put into the library when it was built.
struct EmbeddedFile {
  std::string_view name;  ///< without folder and extension
  std::string_view text;
};

}  // namespace millrace
