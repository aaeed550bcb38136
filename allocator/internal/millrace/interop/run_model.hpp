#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/memory/policy.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/what_if.hpp"

namespace millrace {

/**
 * @brief What `millrace run` would reserve for a log's requests: the lowest and the highest peak.
 *
 * Repeats the requests, and the order of the streams, on the allocator of `millrace run`, on a
 * device of which only queries are answered. When work completes that the program does not wait for
 * depends on the GPU, so the requests are repeated: with work that completes at once, with work
 * that completes only when the program waits for it, and up to 126 times with answers of queries
 * that are drawn at random, as long as all repetitions together have at most 200,000 events.
 * @param log           a trace of Millrace's, which has the order
 * @param device_bytes  memory of the device; 0: as the log has it, otherwise unlimited
 * @param policy        the decisions of the run
 * @throws out_of_memory if the requests do not fit
 */
[[nodiscard]] ModeledRun model_run(const trace::AllocationLog& log, std::uint32_t device,
                                   std::size_t device_bytes, const Policy& policy);

}  // namespace millrace
