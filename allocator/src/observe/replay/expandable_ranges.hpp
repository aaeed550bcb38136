#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "millrace/memory/policy.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief A range of addresses in which PyTorch mapped memory for one pool of one stream. */
struct ExpandableRange {
  static constexpr std::size_t kFromTheStart = std::numeric_limits<std::size_t>::max();

  std::uint64_t base = 0;
  std::size_t page = 0;
  bool small = false;
  std::uint64_t stream = 0;  ///< handle
  trace::TorchPool pool;
  std::size_t since = kFromTheStart;  ///< the event that first maps memory in it
};

/**
 * @brief The ranges of a device in a PyTorch snapshot with expandable segments.
 *
 * A snapshot has the mapped memory, not the ranges. PyTorch maps the lowest addresses first, so a
 * range begins at the lowest address of its memory. PyTorch releases the addresses together with
 * the last memory in them, and another pool may get the same addresses. The request that memory was
 * mapped for shows which pool a range belongs to.
 *
 * @return nothing if the mapped memory does not consist of pages of PyTorch's sizes
 */
[[nodiscard]] std::optional<std::vector<ExpandableRange>> expandable_ranges(
    const trace::AllocationLog& log, std::uint32_t device, const Policy& policy);

}  // namespace millrace
