#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/device/ordered_device.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "observe/replay/logged_program.hpp"
#include "observe/replay/replay_lanes.hpp"

namespace millrace {

/**
 * @brief Repeats the ordering steps of a log: marks, waits, and completions that the program knew.
 */
class ReplayOrder {
 public:
  ReplayOrder(const trace::AllocationLog& log, std::uint32_t device, OrderedDevice& ordered,
              ReplayLanes& lanes)
      : log_(log), device_(device), ordered_(ordered), lanes_(lanes) {}

  /**
   * @brief Repeats the steps before an event.
   * @param event  index into `log.events`, ascending from call to call
   * @param use    called as use(block, stream) when a stream uses a block
   * @param hand   called as hand(block, stream) when a stream becomes the owner of a block
   */
  template <typename Use, typename Hand>
  void before(std::size_t event, Use use, Hand hand) {
    for (; next_ < log_.order.size() && log_.order[next_].before <= event; ++next_) {
      const trace::LoggedOrder& step = log_.order[next_];
      if (step.device != device_) continue;
      if (step.kind == trace::OrderKind::transferred) {
        hand(step.block, lanes_.of_stream(step.stream));
        continue;
      }
      if (step.kind == trace::OrderKind::used) {
        const StreamRef stream = lanes_.of_stream(step.stream);
        if (!log_.streams[step.stream].for_all) uses_[step.block].push_back(stream);
        use(step.block, stream);
      } else {
        apply(step);
      }
    }
  }

  /** @brief Begins a free whose completion the log has. Markers on the freeing stream, and on each
   * stream that uses the block, represent it until `complete`. */
  void await(std::uint32_t block, StreamRef stream);
  void complete(std::uint32_t block);

 private:
  void apply(const trace::LoggedOrder& step);
  /** The replay's own marker for the earliest one that covers this; nullptr if there is none. */

  const trace::AllocationLog& log_;
  const std::uint32_t device_;
  OrderedDevice& ordered_;
  ReplayLanes& lanes_;
  std::size_t next_ = 0;
  LoggedMarkers<Point> marks_;
  std::unordered_map<std::uint32_t, std::vector<StreamRef>> uses_;  // by block in use
  std::unordered_map<std::uint32_t, std::vector<Point>> awaited_;   // by block
};

}  // namespace millrace
