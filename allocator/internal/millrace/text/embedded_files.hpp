#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/embedded_file.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace::text {

/** @brief The names of files that are built into a library, in their order. */
[[nodiscard]] inline std::vector<std::string> names_of(std::span<const EmbeddedFile> files) {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : files) names.emplace_back(file.name);
  return names;
}

/**
 * @brief The file with this name.
 * @param kind  what the files are, for the message: "workload"
 * @param or_a_file  the message says that a file of the user's would do as well
 * @throws std::invalid_argument as `refuse_name`
 */
[[nodiscard]] inline const EmbeddedFile& embedded_file(std::string_view kind, std::string_view name,
                                                       std::span<const EmbeddedFile> files,
                                                       bool or_a_file) {
  const auto found = std::ranges::find(files, name, &EmbeddedFile::name);
  if (found != files.end()) return *found;
  std::vector<std::string> expected = names_of(files);
  if (or_a_file) expected.emplace_back("a file");
  refuse_name(kind, name, expected);
}

}  // namespace millrace::text
