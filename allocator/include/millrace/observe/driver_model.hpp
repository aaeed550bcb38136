#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief The peaks that cudaMalloc and the driver's own pool would have reserved for a log's
 *        requests, in bytes.
 *
 * The pool gives freed memory to another stream when an event orders the two, or when it finds the
 * free complete. The time of completion depends on the GPU, so the model has two figures. If the
 * log has uses on other streams (`record_stream`), the stream of the free first waits for them in
 * the model, because the pool does not know them.
 */
struct DriverModel {
  std::size_t least = 0;  ///< if work completes at once
  std::size_t most = 0;   ///< if work completes only when the program waits for it
};

/**
 * @brief Repeats the requests of one device, and the order of its streams, on the virtual device of
 *        profile h200 without data.
 * @param log           a trace in Millrace's format, which has the order
 * @param device_bytes  memory of the device, from a page (2 MiB) to 1 TiB; other values are
 *                      clamped. 0: the size in the log, or 1 TiB if the log has none
 * @throws DeviceError if the requests do not fit
 */
[[nodiscard]] DriverModel model_driver(const trace::AllocationLog& log, std::uint32_t device,
                                       std::size_t device_bytes);

}  // namespace millrace
