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
/** @brief The text after the last step: weights, checkpoint, bad lines, where the memory went. */
[[nodiscard]] std::string render_end(const TrainOptions& options, const TrainResult& result,
                                     const Painter& paint);
/** @brief The timeline's file, and how much of the run it has. */
[[nodiscard]] std::string render_timeline(const std::string& file, const Timeline& timeline);

}  // namespace millrace::cli
