#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/text.hpp"
#include "millrace/observe/replay.hpp"

namespace millrace::cli {

/** @brief A file, and what came of it on each allocator and device. */
struct ReplayedFile {
  std::string file;
  std::string format;
  std::vector<std::string> warnings;
  std::vector<ReplayReport> reports;
};

/** @brief docs/replay.md describes it. */
[[nodiscard]] nlohmann::json to_document(const std::vector<ReplayedFile>& files);

[[nodiscard]] std::string render(const std::vector<ReplayedFile>& files, const Painter& paint);

}  // namespace millrace::cli
