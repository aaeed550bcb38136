#pragma once

#include <string>

#include "cli/text.hpp"
#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief Whether TorchRec's pull request 3510 measured this workload. */
[[nodiscard]] bool has_published_figures(const experiment::Workload& workload);

/**
 * @brief Advice in words, from the table's rows alone.
 *
 * It says where the memory of the usual row goes, what to change, and what that saves and costs.
 */
[[nodiscard]] std::string render_advice(const FootprintTable& table, const Painter& paint);

/** @brief The advice of the first screen, three lines: where the usual row stands, and one or two
 * changes. "" if every row failed. */
[[nodiscard]] std::string render_first_advice(const FootprintTable& table, const Painter& paint);

}  // namespace millrace::cli
