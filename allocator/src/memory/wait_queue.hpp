#pragma once

#include <cstddef>
#include <map>
#include <memory_resource>

#include "memory/block.hpp"
#include "ordering/steps.hpp"

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
  WaitQueue(Lane* lane, StreamId stream, BlockWaits kind, std::pmr::memory_resource& memory)
      : lane_(lane), stream_(stream), kind_(kind), older_(&memory) {}
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  /** @brief Starts again, empty, as another queue. */
  void serve(Lane* lane, StreamId stream, BlockWaits kind) noexcept {
    lane_ = lane;
    stream_ = stream;
    kind_ = kind;
    newest_ = {};
  }

  /** @brief `marker` is that of the block's point of this stream, which stays while it is here. */
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
    return one_group && front()->free.queue_next() == nullptr;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Lane* lane() const noexcept { return lane_; }
  [[nodiscard]] StreamId stream() const noexcept { return stream_; }
  [[nodiscard]] BlockWaits kind() const noexcept { return kind_; }

  /** @brief Visits the blocks, the earliest markers first, until `visit` says false. */
  template <typename Visit>
  bool visit(Visit&& visit) const {
    const auto visit_group = [&](const Block* block) {
      for (; block != nullptr; block = block->free.queue_next()) {
        ordering::count_steps(1);
        if (!visit(*block)) return false;
      }
      return true;
    };
    for (const auto& [marker, first] : older_) {
      if (!visit_group(first)) return false;
    }
    return visit_group(newest_.first);
  }

  /** @brief Where the lists of queues that have blocks hold it. */
  std::size_t place_among_kind = 0, place_on_stream = 0;

 private:
  Lane* lane_;
  StreamId stream_;
  BlockWaits kind_;
  struct Group {
    Marker marker = 0;
    Block* first = nullptr;
  };

  std::size_t bytes_ = 0;
  // Most frees wait for the newest marker, and most requests take them back before the next one.
  Group newest_;
  std::pmr::map<Marker, Block*> older_;  // none is empty
};

}  // namespace millrace
