#pragma once

#include <cstdint>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace {

/**
 * @brief What an allocator did and holds at the end, in the form of a PyTorch snapshot, whose
 *        viewers show it.
 *
 * Times are positions in the trace. Streams are numbered from 0 in the order of their slots.
 * Segments that touch each other, as those of a growable range do, are one expandable segment. A
 * freed block is complete when the trace knows it to be, or before something else is in its place:
 * the allocator may give memory to a stream that is ordered after its last use, and PyTorch's form
 * has no word for that.
 * @param trace   of the whole life of the allocator, if possible: blocks from before it are left
 *                out
 * @param device  number of the device
 */
[[nodiscard]] trace::TorchSnapshot torch_snapshot(const AllocationTrace& trace,
                                                  std::uint32_t device = 0);

}  // namespace millrace
