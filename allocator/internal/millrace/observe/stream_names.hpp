#pragma once

#include <map>
#include <string>

#include "millrace/device/ordered_device.hpp"
#include "millrace/observe/allocation_trace.hpp"

namespace millrace {

/** @brief The names of the streams that a trace's blocks belong to. The streams still exist. */
[[nodiscard]] inline std::map<StreamId, std::string> stream_names(const AllocationTrace& trace,
                                                                  const OrderedDevice& device) {
  std::map<StreamId, std::string> names;
  for (const TracedBlock& block : trace.blocks()) {
    for (const StreamId stream : {block.owner, block.user}) {
      if (stream.valid() && !names.contains(stream)) names.emplace(stream, device.name(stream));
    }
  }
  return names;
}

}  // namespace millrace
