#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "replay/rows.hpp"

namespace millrace::cli {

/** @brief The tables, and below each what its rows start with and how they compare.
 *  @param wide  with all columns */
[[nodiscard]] std::string render(const std::vector<ReplayedFile>& files, bool wide,
                                 const Painter& paint);

}  // namespace millrace::cli
