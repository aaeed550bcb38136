#pragma once

#include <span>

#include "millrace/device/profile.hpp"
#include "millrace/experiment/exposure.hpp"
#include "millrace/experiment/pipeline_comparison.hpp"
#include "pipelines/operation_log.hpp"

namespace millrace::experiment {

// Operations must be sorted by begin, then by index, as in OperationLog.

/**
 * @brief A lower bound of the runtime for any order of these operations.
 * @param operations  of all devices; link operations that begin at the same time are one collective
 */
[[nodiscard]] RuntimeBound bound_of(std::span<const LoggedOperation> operations,
                                    const DeviceProfile& profile);

/** @brief Times of one device's engines between `window.begin` and `window.end`. */
[[nodiscard]] EngineTimes engine_times(std::span<const LoggedOperation> operations, unsigned device,
                                       TimeSpan window);

}  // namespace millrace::experiment
