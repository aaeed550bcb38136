#pragma once

#include <string>
#include <vector>

#include "footprint/rows.hpp"

namespace millrace::cli {

/** @brief Another row that is worth a change from the usual one. */
struct Change {
  std::string title;  ///< why it is named: "Another allocator"
  const FootprintRow* to;
};

/** @brief Allocator and strategy: "torch, side-stream". */
[[nodiscard]] std::string full_name(const FootprintRow& row);

/** @brief All changes that the advice explains, each row once. The usual row exists. */
[[nodiscard]] std::vector<Change> all_changes(const FootprintTable& table);
/** @brief The one or two changes of the first screen: the allocator alone, and the row with the
 * least memory that is as fast. The usual row exists. */
[[nodiscard]] std::vector<Change> first_changes(const FootprintTable& table);

/** @brief The limits within which a change of allocator or strategy counts as free of cost in time.
 */
inline constexpr double kSameStep = 0.01;    ///< of the step's P50, as the table has it
inline constexpr double kSameHidden = 0.01;  ///< of the share of copying that is hidden

/** @brief Whether `to` is as fast as `from` and hides as much of the copy, within those limits. */
[[nodiscard]] bool costs_no_time(const FootprintFigures& from, const FootprintFigures& to);

}  // namespace millrace::cli
