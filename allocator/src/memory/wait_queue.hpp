#pragma once

#include <cstddef>
#include <map>
#include <memory_resource>

#include "memory/block.hpp"
#include "ordering/steps.hpp"

namespace millrace {

struct Lane;

/**
 * @brief Free blocks that wait for markers of one stream, sorted by marker.
 *
 * The markers of a stream complete in order, and a stream that waits for one is ordered after all
 * earlier ones. So the blocks that no longer wait are always the first ones of the queue, and a
 * check of the front shows whether there are any.
 */
class WaitQueue {
 public:
  /** @param lane  the lane of all its blocks; nullptr: they are of several lanes */
  WaitQueue(Lane* lane, StreamId stream, BlockWaits kind, std::pmr::memory_resource& memory)
      : lane_(lane), stream_(stream), kind_(kind), older_(&memory) {}
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  /** @brief Makes the queue, which is empty, another queue. */
  void serve(Lane* lane, StreamId stream, BlockWaits kind) noexcept {
    lane_ = lane;
    stream_ = stream;
    kind_ = kind;
    newest_ = {};
  }

  /**
   * @brief Adds a block.
   * @param marker  of the block's point of this stream, which must not change in the queue
   */
  void insert(Block* block, Marker marker);
  void erase(Block* block);
  /**
   * @brief Calls `each` with the blocks that wait for the earliest marker, in reverse order of
   *        insertion, then removes them. If `each` throws, all of them stay. The queue must not be
   *        empty.
   */
  template <typename Each>
  void take_front_group(const Each& each) {
    Block* const first = front();
    for (Block* block = first; block != nullptr; block = block->free.queue_next()) each(block);
    if (older_.empty()) {
      newest_.first = nullptr;
    } else {
      older_.erase(older_.begin());
    }
    for (Block* block = first; block != nullptr; block = block->free.queue_next()) {
      ordering::count_steps(1);
      bytes_ -= block->bytes;
      block->free.queue = nullptr;
    }
  }

  /** @brief Returns a block that waits for the earliest marker, or nullptr. */
  [[nodiscard]] Block* front() const noexcept {
    return older_.empty() ? newest_.first : older_.begin()->second;
  }
  [[nodiscard]] Point front_point() const noexcept {
    return {stream_, older_.empty() ? newest_.marker : older_.begin()->first};
  }
  /** @brief Returns the latest point that a block of the queue waits for. */
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

  /** @brief Calls `visit` with the blocks, those of the earliest marker first, until it returns
   * false. @return false if `visit` did */
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

  /** @brief Its indexes in two lists of queues that have blocks. */
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
  // Most blocks wait for the newest marker, and are taken again before there is a next one. So the
  // group of that marker is not in the map.
  Group newest_;
  std::pmr::map<Marker, Block*> older_;  // no group in it is empty
};

}  // namespace millrace
