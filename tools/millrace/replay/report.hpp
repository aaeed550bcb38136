#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The tables, and below each what its rows start with and how they compare. */
[[nodiscard]] std::string render(const std::vector<ReplayedFile>& files, const Painter& paint);

}  // namespace millrace::cli
