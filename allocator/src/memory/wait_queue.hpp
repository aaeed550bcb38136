#pragma once

#include <cstddef>
#include <map>
#include <memory_resource>

#include "memory/block.hpp"

namespace millrace {

struct Lane;

/**
 * @brief Free blocks that wait for markers of one stream, by marker.
 *
 * A stream's markers complete in their order, and a stream that waits for one is ordered after all
 * before it. So what no longer waits is always a beginning of the queue, and one look at the front
 * says that there is nothing new.
 */
class WaitQueue {
 public:
  /** @param lane  whose blocks they are; none: of several lanes */
  WaitQueue(Lane* lane, StreamId stream, Waits kind, std::pmr::memory_resource& memory)
      : lane_(lane), stream_(stream), kind_(kind), older_(&memory) {}
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  void insert(Block* block, Marker marker);
  void erase(Block* block);

  /** @brief One of those that wait for the earliest marker, or nullptr. */
  [[nodiscard]] Block* front() const noexcept {
    return older_.empty() ? newest_.first : older_.begin()->second;
  }
  [[nodiscard]] Point front_point() const noexcept {
    return {stream_, older_.empty() ? newest_.marker : older_.begin()->first};
  }
  /** @brief The latest that a block in it waits for. */
  [[nodiscard]] Point newest_point() const noexcept {
    const bool newest = newest_.first != nullptr || older_.empty();
    return {stream_, newest ? newest_.marker : older_.rbegin()->first};
  }
  [[nodiscard]] bool empty() const noexcept { return front() == nullptr; }
  [[nodiscard]] bool holds_one() const noexcept {
    const bool one_group = older_.size() + (newest_.first != nullptr ? 1 : 0) == 1;
    return one_group && front()->queue_next == nullptr;
  }
  [[nodiscard]] Lane* lane() const noexcept { return lane_; }
  [[nodiscard]] StreamId stream() const noexcept { return stream_; }
  [[nodiscard]] Waits kind() const noexcept { return kind_; }

  template <typename Visit>
  void visit(Visit&& visit) const {
    const auto visit_group = [&](const Block* block) {
      for (; block != nullptr; block = block->queue_next) visit(*block);
    };
    for (const auto& [marker, first] : older_) visit_group(first);
    visit_group(newest_.first);
  }

  /** @brief Where the lists of queues that have blocks hold it. */
  std::size_t place_among_kind = 0, place_on_stream = 0;

 private:
  Lane* const lane_;
  const StreamId stream_;
  const Waits kind_;
  struct Group {
    Marker marker = 0;
    Block* first = nullptr;
  };

  // Most frees wait for the newest marker, and most requests take them back before the next one.
  Group newest_;
  std::pmr::map<Marker, Block*> older_;  // none is empty
};

}  // namespace millrace
