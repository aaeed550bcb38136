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

/** @brief The limits within which a change of allocator or strategy counts as free of cost in time.
 */
inline constexpr double kSameStep = 0.01;    ///< of the step's P50, as the table has it
inline constexpr double kSameHidden = 0.01;  ///< of the share of copying that is hidden

/** @brief Whether `to` is as fast as `from` and hides as much of the copy, within those limits. */
[[nodiscard]] bool costs_no_time(const FootprintFigures& from, const FootprintFigures& to);

}  // namespace millrace::cli
