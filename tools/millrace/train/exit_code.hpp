#pragma once

#include "train/session.hpp"

namespace millrace::cli {

/**
 * @brief What a run without an error ends with: a race on any rank comes before what a sink lacks,
 *        and that before the signal.
 * @param interrupted  for a run that a signal ended
 */
[[nodiscard]] int exit_code_of(const TrainResult& result, int interrupted);

}  // namespace millrace::cli
