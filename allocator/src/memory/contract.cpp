#include "memory/contract.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace millrace {

void refuse_address(const char* call, const void* address) {
  throw std::invalid_argument{
      fmt::format("{}: {} is not a live allocation of this allocator", call, address)};
}

void refuse_stream(const char* call, const OrderedDevice& device, StreamRef stream) {
  throw std::invalid_argument{fmt::format(
      "{}: {} was destroyed or detached; this reference is older", call, device.name(stream.id()))};
}

FirstMarkers FirstMarkers::now(const Ledger& ledger, StreamId owner, StreamId user) {
  const Point of_owner{owner, ledger.next(owner)};
  return {of_owner, user == owner ? of_owner : Point{user, ledger.next(user)}};
}

void FirstMarkers::require_covered(Point marker, const void* address) const {
  if (!marker.stream.valid()) {
    throw std::invalid_argument{fmt::format(
        "deallocate: the marker of {} was never recorded; pass one that OrderedDevice::mark or "
        "Event::point gave after the last use",
        address)};
  }
  for (const Point first : {owner, user}) {
    if (marker.stream != first.stream || marker.marker >= first.marker) continue;
    throw std::invalid_argument{
        fmt::format("deallocate: marker {} is older than the allocation of {}, whose stream's next "
                    "marker was {}",
                    marker.marker, address, first.marker)};
  }
}

}  // namespace millrace
