#pragma once

#include <string>
#include <vector>

#include "explain/explained.hpp"

/// @file
/// Sentences about an explanation, for the terminal and for the page.

namespace millrace::cli {

/** @brief Why the last failed request failed, and what would have fit; empty if none failed. */
[[nodiscard]] std::vector<std::string> failure_sentences(const ExplainedFile& file,
                                                         const DeviceExplanation& device);

/** @brief The replays that serve the last failed request; "" if none was replayed. */
[[nodiscard]] std::string served_sentence(const ExplainedDevice& device);

/** @brief The reserved and live bytes at the peak, and the request that caused the growth. */
[[nodiscard]] std::vector<std::string> peak_sentences(const ExplainedFile& file,
                                                      const ExplainedDevice& device);

/** @brief The change that saves most and its cost. @param all  also the other changes */
[[nodiscard]] std::vector<std::string> advice_sentences(const ExplainedFile& file,
                                                        const ExplainedDevice& device, bool all);

}  // namespace millrace::cli
