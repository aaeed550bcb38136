#pragma once

#include "train/session.hpp"

namespace millrace::cli {

/**
 * @brief The exit code of a run without an error.
 *
 * The first that applies: a race on any rank, a sink that lacks rows, a signal.
 * @param interrupted  the code if a signal ended the run
 */
[[nodiscard]] int exit_code_of(const TrainResult& result, int interrupted);

}  // namespace millrace::cli
