#pragma once

#include "millrace/experiment/workload.hpp"

namespace millrace::cli {

/**
 * @brief Whether a workload is the one that a published figure is about, whatever it is called: the
 *        same batches, model and compute. Steps, run-ahead and the link between ranks may differ.
 */
[[nodiscard]] bool is_published(experiment::Workload workload,
                                const experiment::Workload& published);

}  // namespace millrace::cli
