#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/**
 * @brief What cudaMalloc and the driver's own pool would have reserved for a log's requests: the
 *        peaks, in bytes.
 *
 * The pool gives freed memory to another stream when an event orders the two, or when it finds the
 * free complete. How soon it does depends on the GPU, so there are two figures. If the log has uses
 * on other streams (`record_stream`), the stream of the free first waits for them in the model,
 * since the pool does not know of them.
 */
struct DriverModel {
  std::size_t least = 0;  ///< if work completes at once
  std::size_t most = 0;   ///< if work completes only when the program waits for it
};

/**
 * @brief Repeats the requests of one device, and the order of its streams, on the virtual device of
 *        profile h200 without data.
 * @param log           a trace of Millrace's, which has the order
 * @param device_bytes  memory of the device; 0: as the log has it, otherwise 1 TiB. Less than a
 * page of 2 MiB counts as one, and more than 1 TiB as that
 * @throws DeviceError if the requests do not fit
 */
[[nodiscard]] DriverModel model_driver(const trace::AllocationLog& log, std::uint32_t device,
                                       std::size_t device_bytes);

}  // namespace millrace
