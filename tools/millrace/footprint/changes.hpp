#pragma once

#include <string>
#include <vector>

#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief A row that is worth a change from the usual row. */
struct Change {
  std::string title;  ///< the reason: "Another allocator"
  const FootprintRow* to;
};

/** @brief The allocator and the strategy: "torch, side-stream". */
[[nodiscard]] std::string full_name(const FootprintRow& row);

/** @brief All changes that the advice explains, each row once. The table must have a usual row. */
[[nodiscard]] std::vector<Change> all_changes(const FootprintTable& table);
/** @brief Up to two changes for the first screen: the same strategy with millrace, and the row with
 *         the least memory that is as fast. If only one of them exists, also the best strategy of
 *         the usual row's allocator. The table must have a usual row. */
[[nodiscard]] std::vector<Change> first_changes(const FootprintTable& table);

/** @brief Limits up to which a change costs no time. */
inline constexpr double kSameStep = 0.01;    ///< share of the step's P50
inline constexpr double kSameHidden = 0.01;  ///< share of copying that is hidden

/** @brief Whether `to` is as fast as `from` and hides as much of the copy, within these limits. */
[[nodiscard]] bool costs_no_time(const FootprintFigures& from, const FootprintFigures& to);

}  // namespace millrace::cli
