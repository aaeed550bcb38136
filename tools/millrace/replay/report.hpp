#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/**
 * @brief The tables, each followed by the starting memory of its rows and their comparison.
 * @param wide  show all columns
 */
[[nodiscard]] std::string render(const std::vector<ReplayedFile>& files, bool wide,
                                 const Painter& paint);

}  // namespace millrace::cli
