#pragma once

#include <string>

#include "cli/text.hpp"
#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief Whether TorchRec's pull request 3510 measured this workload. */
[[nodiscard]] bool has_published_figures(const experiment::Workload& workload);

/**
 * @brief The advice in words. It uses only the rows of the table.
 *
 * It says where the memory of the usual row goes, what to change, and what each change saves and
 * costs.
 */
[[nodiscard]] std::string render_advice(const FootprintTable& table, const Painter& paint);

/** @brief The advice of the first screen, up to three lines: the figures of the usual row, and one
 *         or two changes. "" if every row failed. */
[[nodiscard]] std::string render_first_advice(const FootprintTable& table, const Painter& paint);

}  // namespace millrace::cli
