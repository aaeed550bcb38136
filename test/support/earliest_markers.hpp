#pragma once

#include <map>
#include <utility>

#include "millrace/memory/allocator.hpp"

namespace millrace::test {

/// Of each allocation the earliest markers that an allocator accepts at its free: nearly always too
/// early. For allocators that are wrong on purpose.
class EarliestMarkers {
 public:
  void gave_out(void* address, OrderedDevice& device, StreamRef owner, StreamRef first_user) {
    if (address == nullptr) return;
    const auto next = [&](StreamRef stream) {
      const StreamId id = device.resolve(stream).id();
      return Point{id, device.ledger().next(id)};
    };
    first_[address] = {next(owner), next(first_user)};
  }

  [[nodiscard]] Point on(void* address, StreamId stream) const {
    const auto known = first_.find(address);
    if (known == first_.end()) return {stream, 0};
    const auto& [owner, user] = known->second;
    return owner.stream == stream ? owner : user.stream == stream ? user : Point{stream, 0};
  }

 private:
  std::map<void*, std::pair<Point, Point>> first_;
};

}  // namespace millrace::test
