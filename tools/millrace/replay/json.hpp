#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The JSON document of a replay. docs/replay.md lists its keys. */
[[nodiscard]] nlohmann::json to_document(const std::vector<ReplayedFile>& files);

}  // namespace millrace::cli
