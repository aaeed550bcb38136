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

}  // namespace

std::string pickled_snapshot(DeviceMemory& memory) {
  return trace::write_torch_snapshot(memory.snapshot());
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
