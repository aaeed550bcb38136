#pragma once

#include <string>

#include "cli/text.hpp"
#include "millrace/observe/timeline.hpp"
#include "train/session.hpp"

namespace millrace::cli {

[[nodiscard]] std::string render_plan(const TrainOptions& options, const TrainPlan& plan,
                                      const Painter& paint);
[[nodiscard]] std::string render_epoch(const EpochResult& epoch);
/** @brief One line, without a line end. */
[[nodiscard]] std::string render_progress(const EpochProgress& progress);
/** @brief The text after the last step: weights, checkpoint, malformed lines, memory. */
[[nodiscard]] std::string render_end(const TrainOptions& options, const TrainResult& result,
                                     const Painter& paint);
/** @brief The timeline's file, and the part of the run that it contains. */
[[nodiscard]] std::string render_timeline(const std::string& file, const Timeline& timeline);

}  // namespace millrace::cli
