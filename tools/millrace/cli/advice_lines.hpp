#pragma once

#include <string>
#include <string_view>

#include "cli/text.hpp"

/// @file
/// The advice of a first screen. It states the figures of the default row and one or two changes.
/// All commands use the same form.

namespace millrace::cli {

/** @brief How another row differs from the default row. */
struct RowChange {
  std::string name;    ///< name of the other row
  double saved = 0;    ///< bytes; negative if the other row takes more
  double of = 0;       ///< bytes that the default row reserves
  std::string amount;  ///< the saved bytes in words, without a sign
  std::string cost;    ///< "step +0.3%"
};

/** @brief "torch, side-stream reserves 34.87 GiB to hold 22.82 GiB of live data." */
[[nodiscard]] std::string held_line(const std::string& name, const std::string& reserved,
                                    const std::string& live);
/** @brief Whether a change of the reserved bytes rounds to 0%. */
[[nodiscard]] bool is_as_much(double saved, double of);
/** @brief "millrace, in-place saves 7.71 GiB (22%), step +0.3%."; without an amount if the change
 *         rounds to 0%. */
[[nodiscard]] std::string change_line(const RowChange& change);
/** @brief "step +0.3%"; "same step" if the change rounds to 0%. */
[[nodiscard]] std::string time_change(std::string_view what, double from, double to);
/** @brief A line of the advice: "Another allocator: ...". */
[[nodiscard]] std::string advice_line(std::string_view title, const std::string& text, bool is_good,
                                      const Painter& paint);

}  // namespace millrace::cli
