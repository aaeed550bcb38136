#pragma once

#include <string>
#include <vector>

#include "explain/explained.hpp"

/// @file
/// An explanation in words, for the terminal and for the page.

namespace millrace::cli {

/** @brief Why the last request that failed did, and what would have fitted; none if none failed. */
[[nodiscard]] std::vector<std::string> failure_sentences(const ExplainedFile& file,
                                                         const DeviceExplanation& device);

/** @brief Which replays serve the last request that failed; "" if none was replayed. */
[[nodiscard]] std::string served_sentence(const ExplainedDevice& device);

/** @brief How much is reserved and live at the peak, and which request made it grow. */
[[nodiscard]] std::vector<std::string> peak_sentences(const ExplainedFile& file,
                                                      const ExplainedDevice& device);

/** @brief The change that saves most and what it costs. @param all  and the other changes */
[[nodiscard]] std::vector<std::string> advice_sentences(const ExplainedFile& file,
                                                        const ExplainedDevice& device, bool all);

}  // namespace millrace::cli
