#pragma once

#include <string>

#include "cli/text.hpp"
#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief Whether what TorchRec's pull request 3510 measured is about this workload. */
[[nodiscard]] bool has_published_figures(const experiment::Workload& workload);

/**
 * @brief In words, from the rows alone: where the memory of the usual row goes; what to change,
 * what that saves and costs, and why.
 */
[[nodiscard]] std::string render_advice(const FootprintTable& table, const Painter& paint);

/** @brief Within these a change of allocator or strategy costs no time. */
inline constexpr double kSameStep = 0.01;    ///< of the step's P50, as the table has it
inline constexpr double kSameHidden = 0.01;  ///< of the share of copying that is hidden

/** @brief Whether `to` is as fast as `from`, and hides as much. */
[[nodiscard]] bool costs_no_time(const FootprintFigures& from, const FootprintFigures& to);

}  // namespace millrace::cli
