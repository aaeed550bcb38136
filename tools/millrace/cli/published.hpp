#pragma once

#include "millrace/experiment/workload.hpp"

namespace millrace::cli {

/**
 * @brief Whether a workload is the one that a published figure was measured with.
 *
 * Batches, model and compute have to be the same. The name, the number of steps, the run-ahead and
 * the link between ranks may differ.
 */
[[nodiscard]] bool is_published(experiment::Workload workload,
                                const experiment::Workload& published);

}  // namespace millrace::cli
