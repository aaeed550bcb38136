#include "observe/replay/replay_lanes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace millrace {

StreamRef ReplayLanes::of(const trace::TorchSegment& segment) {
  return lane({static_cast<std::uint64_t>(segment.stream), segment.pool, false});
}

StreamRef ReplayLanes::of(const trace::LoggedBlock& block, std::uint32_t index) {
  const trace::LoggedStream& logged = log_.streams.at(index);
  if (knows_order(log_.format)) return of_stream(index);
  const std::uint64_t handle =
      logged.thread == 0 ? logged.handle : logged.thread << 16 | logged.handle;
  if (!by_pool_) return lane({handle, {}, false});
  return lane({handle, block.pool, apart(block)});
}

StreamRef ReplayLanes::of_stream(std::uint32_t index) {
  of_stream_.resize(std::max<std::size_t>(of_stream_.size(), index + 1));
  if (const auto& known = of_stream_[index]) return *known;
  const trace::LoggedStream& logged = log_.streams.at(index);
  const std::string name = logged.name.empty() ? "stream " + std::to_string(index) : logged.name;
  if (logged.for_all) {
    of_stream_[index] = device_.open_nominal(name);
  } else if (logged.legacy && !has_legacy_) {
    has_legacy_ = true;
    of_stream_[index] = device_.attach(StreamHandle{}, {.name = name});
  } else {
    made_.push_back(std::make_unique<Stream>(
        device_, StreamOptions{.blocking = logged.blocking, .name = name}));
    of_stream_[index] = made_.back()->ref();
  }
  const bool has_handle = logged.legacy || logged.handle != 0;
  handles_[of_stream_[index]->id()] =
      has_handle && used_handles_.insert(logged.handle).second ? logged.handle : free_handle();
  return *of_stream_[index];
}

// The driver reuses handles, and some streams have none.
std::uint64_t ReplayLanes::free_handle() {
  if (next_handle_ == 0) {
    for (const trace::LoggedStream& stream : log_.streams)
      next_handle_ = std::max(next_handle_, stream.handle);
  }
  return ++next_handle_;
}

StreamRef ReplayLanes::lane(const Key& key) {
  auto& stream = lanes_[key];
  if (stream == nullptr) {
    const std::uint64_t handle = std::get<0>(key);
    stream = std::make_unique<Stream>(
        device_, StreamOptions{.name = handle == 0 ? "default stream"
                                                   : fmt::format("stream {:#x}", handle)});
    handles_[stream->id()] = handle;
  }
  return *stream;
}

}  // namespace millrace
