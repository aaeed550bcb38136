#pragma once

#include <string>
#include <vector>

#include "cli/text.hpp"
#include "explain/explained.hpp"
#include "millrace/observe/explain_difference.hpp"

namespace millrace::cli {

/** @brief The amount of detail in the text. */
struct ExplainText {
  bool wide = false;  ///< all rows, at the width of the terminal; otherwise a screen of 80 columns
};

/** @brief The text of an explanation. */
[[nodiscard]] std::string render(const ExplainedFile& file, const ExplainText& options,
                                 const Painter& paint);

/** @brief The text of a comparison of two files. */
[[nodiscard]] std::string render(const ExplainedFile& first, const ExplainedFile& second,
                                 const std::vector<DeviceDifference>& devices,
                                 const ExplainText& options, const Painter& paint);

}  // namespace millrace::cli
