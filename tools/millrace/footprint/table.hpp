#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief All tables for people: figures, legend, and what to change; `page_width()` wide at most.
 */
[[nodiscard]] std::string render_tables(const std::vector<FootprintTable>& tables,
                                        const FootprintOptions& options, const Painter& paint);

}  // namespace millrace::cli
