#pragma once

#include <span>

#include "millrace/device/profile.hpp"
#include "millrace/experiment/exposure.hpp"
#include "millrace/experiment/pipeline_comparison.hpp"
#include "pipelines/operation_log.hpp"

namespace millrace::experiment {

// Operations are in order of begin, then of index, as OperationLog has them.

/** @param operations  of all devices; those that begin on links at one time are one meeting */
[[nodiscard]] RuntimeBound bound_of(std::span<const LoggedOperation> operations,
                                    const DeviceProfile& profile);

/** @brief What one device did between `window.begin` and `window.end`. */
[[nodiscard]] EngineTimes engine_times(std::span<const LoggedOperation> operations, unsigned device,
                                       TimeSpan window);

}  // namespace millrace::experiment
