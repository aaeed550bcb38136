#include "test/support/data.hpp"

#include <cstdlib>

namespace millrace::test {

std::filesystem::path source_folder() { return MILLRACE_SOURCE_DIR; }

std::optional<std::filesystem::path> data_folder() {
  const char* const given = std::getenv("MILLRACE_DATA");
  const std::filesystem::path folder = given != nullptr
                                           ? std::filesystem::path{given}
                                           : source_folder().parent_path() / "shared/data";
  if (!std::filesystem::is_directory(folder)) return std::nullopt;
  return folder;
}

}  // namespace millrace::test
