#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief The streams of a log, including those that only its segments name. */
class ExplainedStreams {
 public:
  explicit ExplainedStreams(const trace::AllocationLog& log) : streams_(log.streams) {
    for (std::uint32_t i = 0; i < streams_.size(); ++i) known_.try_emplace(key(streams_[i]), i);
  }

  [[nodiscard]] std::uint32_t find(std::uint32_t device, std::int64_t handle) {
    const trace::LoggedStream stream{device, static_cast<std::uint64_t>(handle), 0};
    const auto [known, fresh] =
        known_.try_emplace(key(stream), static_cast<std::uint32_t>(streams_.size()));
    if (fresh) streams_.push_back(stream);
    return known->second;
  }

  [[nodiscard]] const std::vector<trace::LoggedStream>& streams() const noexcept {
    return streams_;
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  static Key key(const trace::LoggedStream& stream) {
    return {stream.device, stream.handle, stream.thread};
  }

  std::vector<trace::LoggedStream> streams_;
  std::map<Key, std::uint32_t> known_;
};

}  // namespace millrace
