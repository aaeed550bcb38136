#include "millrace/memory/segment_source.hpp"

#include <algorithm>

namespace millrace {
namespace {

constexpr std::size_t kRangePerMemory = 2;                 // holes use up addresses
constexpr std::size_t kMostMemory = std::size_t{1} << 39;  // for a device with unlimited memory

[[noreturn]] void refuse(const char* call) {
  throw DeviceError{ErrorCode::not_supported, call, "this source of segments has no ranges"};
}

}  // namespace

AddressRange SegmentSource::reserve() { refuse("reserve"); }
void SegmentSource::give_back(AddressRange) { refuse("give_back"); }
void SegmentSource::map(void*, std::size_t) { refuse("map"); }
void SegmentSource::unmap(void*, std::size_t) { refuse("unmap"); }
void SegmentSource::begin_move(void*, void*, std::size_t) { refuse("begin_move"); }
void SegmentSource::end_move(void*, std::size_t) { refuse("end_move"); }

AddressRange DeviceSource::reserve() {
  const std::size_t memory = std::min(device_.memory_info().total, kMostMemory);
  const std::size_t pages = std::max<std::size_t>(memory / device_.page_bytes(), 1);
  const std::size_t bytes = pages * kRangePerMemory * device_.page_bytes();
  return {device_.reserve_range(bytes), bytes};
}

}  // namespace millrace
