#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "millrace/observe/trace/allocation_log.hpp"

/// @file
/// Helpers for code that repeats a recorded program from its log.

namespace millrace {

/** @brief The marks that a repetition made for the markers of a log, by stream and number. */
template <typename Mark>
class LoggedMarkers {
 public:
  void put(std::uint32_t stream, std::uint64_t marker, Mark mark) {
    marks_.insert_or_assign({stream, marker}, std::move(mark));
  }
  /** @brief Returns the stream's first mark at `marker` or later; nullptr if there is none. */
  [[nodiscard]] const Mark* covering(std::uint32_t stream, std::uint64_t marker) const {
    const auto found = marks_.lower_bound({stream, marker});
    return found != marks_.end() && found->first.first == stream ? &found->second : nullptr;
  }

 private:
  std::map<std::pair<std::uint32_t, std::uint64_t>, Mark> marks_;
};

/** @brief Calls `order` for each ordering step of a log and `event` for each of its events, in
 * their recorded order. Steps after the last event are left out. */
template <typename Order, typename Event>
void repeat_program(const trace::AllocationLog& log, const Order& order, const Event& event) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    for (; next < log.order.size() && log.order[next].before <= i; ++next) order(log.order[next]);
    event(log.events[i]);
  }
}

}  // namespace millrace
