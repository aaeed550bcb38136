#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/pipeline/collective/process_group.hpp"

namespace millrace {

/**
 * @brief Collects bytes in host memory from every rank on rank 0.
 *
 * Every rank calls it; the numbers of bytes may differ. The bytes go through device memory. Blocks
 * the host until `stream` has passed the exchange.
 * @param bytes   the bytes of this rank
 * @param memory  allocates memory of the group's device
 * @return on rank 0 the bytes of each rank, in the order of ranks; on other ranks an empty vector
 * @throws CollectiveError, out_of_memory, DeviceError
 */
[[nodiscard]] std::vector<std::vector<std::byte>> gather(ProcessGroup& group,
                                                         std::span<const std::byte> bytes,
                                                         Allocator& memory, Stream& stream);

}  // namespace millrace
