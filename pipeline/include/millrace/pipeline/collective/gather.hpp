#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace {

/**
 * @brief Brings what every rank has in host memory to rank 0, as many bytes as each has.
 *
 * Every rank calls it. Goes through device memory, and waits for `stream`.
 * @param memory  of the group's device
 * @return on rank 0 the bytes of each rank; on others nothing
 * @throws CollectiveError, out_of_memory, DeviceError
 */
[[nodiscard]] std::vector<std::vector<std::byte>> gather(ProcessGroup& group,
                                                         std::span<const std::byte> bytes,
                                                         Allocator& memory, Stream& stream);

}  // namespace millrace
