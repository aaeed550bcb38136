#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "millrace/observe/explain.hpp"
#include "observe/explain/memory_map.hpp"

namespace millrace {

/** @brief The moments of a device that are explained: its peak and its failures. */
struct Moments {
  std::optional<std::size_t> peak;  ///< number among the device's events; std::nullopt: the start
  MemoryAsker asker;
  bool knows_segments = false;
  bool shares_streams = false;
  std::uint64_t most_live = 0;
  std::vector<std::size_t> failures;  ///< numbers among the device's events
};

/** @brief Goes through the events of a device and finds its moments. */
[[nodiscard]] Moments find_moments(const trace::AllocationLog& log, const DeviceLog& device,
                                   const BlockTimes& times, ExplainedStreams& streams,
                                   std::vector<std::uint64_t>& ends);

}  // namespace millrace
