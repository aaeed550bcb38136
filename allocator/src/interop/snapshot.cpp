#include "interop/snapshot.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "millrace/config.hpp"
#include "millrace/observe/report.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"

namespace millrace {
namespace {

using nlohmann::json;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

json describe(const CachingAllocator::SegmentLayout& segment, const DeviceMemory& memory) {
  json blocks = json::array();
  std::size_t allocated = 0;
  std::size_t requested = 0;
  for (const CachingAllocator::BlockLayout& block : segment.blocks) {
    const std::uintptr_t address = number(segment.base) + block.offset;
    allocated += block.allocated ? block.bytes : 0;
    requested += block.allocated ? block.requested : 0;
    blocks.push_back({{"address", address},
                      {"size", block.bytes},
                      {"requested_size", block.allocated ? block.requested : 0},
                      {"state", block.allocated ? "active_allocated" : "inactive"}});
  }
  const bool known = segment.stream.id().valid();
  return {{"device", memory.device_id()},
          {"address", number(segment.base)},
          {"total_size", segment.bytes},
          {"allocated_size", allocated},
          {"active_size", allocated},
          {"requested_size", requested},
          {"stream", number(segment.stream.handle().value)},
          {"stream_name", known ? memory.device().name(segment.stream.id()) : ""},
          {"segment_type", segment.small ? "small" : "large"},
          {"blocks", std::move(blocks)}};
}

trace::TorchSegment torch_segment(const CachingAllocator::SegmentLayout& segment, int device) {
  trace::TorchSegment out;
  out.device = static_cast<std::uint32_t>(device);
  out.address = number(segment.base);
  out.bytes = segment.bytes;
  out.stream = static_cast<std::int64_t>(number(segment.stream.handle().value));
  out.large = !segment.small;
  for (const CachingAllocator::BlockLayout& block : segment.blocks) {
    out.blocks.push_back(
        {out.address + block.offset, block.bytes, block.allocated ? block.requested : 0,
         block.allocated ? trace::BlockState::allocated : trace::BlockState::inactive});
  }
  return out;
}

}  // namespace

std::string pickled_snapshot(DeviceMemory& memory) {
  trace::TorchSnapshot out;
  out.traces.resize(static_cast<std::size_t>(memory.device_id()) + 1);
  for (const CachingAllocator::SegmentLayout& segment : memory.caching().layout()) {
    out.segments.push_back(torch_segment(segment, memory.device_id()));
  }
  return trace::write_torch_snapshot(out);
}

json snapshot(DeviceMemory& memory) {
  json segments = json::array();
  for (const CachingAllocator::SegmentLayout& segment : memory.caching().layout()) {
    segments.push_back(describe(segment, memory));
  }
  return {{"millrace", MILLRACE_VERSION},
          {"device", memory.device_id()},
          {"segments", std::move(segments)},
          {"statistics", memory.statistics()}};
}

}  // namespace millrace
