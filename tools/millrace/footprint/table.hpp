#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief All tables as text: figures, legend and advice, in at most `page_width()` columns. */
[[nodiscard]] std::string render_tables(const std::vector<FootprintTable>& tables,
                                        const FootprintOptions& options, const Painter& paint);

}  // namespace millrace::cli
