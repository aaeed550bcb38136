#include "observe/replay/replay_lanes.hpp"

#include <string>

namespace millrace {

StreamRef ReplayLanes::of(const trace::TorchSegment& segment) {
  return lane({static_cast<std::uint64_t>(segment.stream), segment.pool, false});
}

StreamRef ReplayLanes::of(const trace::LoggedBlock& block, std::uint32_t index) {
  const trace::LoggedStream& logged = log_.streams.at(index);
  const std::uint64_t handle =
      logged.thread == 0 ? logged.handle : logged.thread << 16 | logged.handle;
  if (!by_pool_) return lane({handle, {}, false});
  return lane({handle, block.pool, apart(block)});
}

StreamRef ReplayLanes::lane(const Key& key) {
  auto& stream = lanes_[key];
  if (stream == nullptr) {
    const std::uint64_t handle = std::get<0>(key);
    stream = std::make_unique<Stream>(device_,
                                      StreamOptions{.name = "stream " + std::to_string(handle)});
  }
  return *stream;
}

}  // namespace millrace
