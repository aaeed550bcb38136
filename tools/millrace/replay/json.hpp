#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief docs/replay.md describes it. */
[[nodiscard]] nlohmann::json to_document(const std::vector<ReplayedFile>& files);

}  // namespace millrace::cli
