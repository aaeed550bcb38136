#pragma once

#include "millrace/experiment/workload.hpp"

namespace millrace::cli {

/**
 * @brief Whether a workload is the one with which a published figure was measured.
 *
 * Batches, model and compute must be the same. The description, the number of steps, the run-ahead
 * and the link between ranks may differ.
 */
[[nodiscard]] bool is_published(experiment::Workload workload,
                                const experiment::Workload& published);

}  // namespace millrace::cli
