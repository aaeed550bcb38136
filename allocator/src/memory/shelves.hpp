#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "memory/free_segments.hpp"
#include "memory/lane.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/ordering/ledger.hpp"

namespace millrace {

/**
 * @brief The free blocks by lane, by size, and by the points that they wait for. Decides nothing,
 *        takes no lock.
 *
 * A block is in its lane's index of ready blocks or in that of draining blocks, for which the
 * lane's own stream would have to wait. A ready block is at first unlisted, until another stream
 * searches beyond its own lane. A listed or draining block waits in one queue for one of its
 * points, then for the next one, and so on. Complete blocks are in one more index, for all streams.
 */
class Shelves {
 public:
  Shelves(const Ledger& ledger, Sharing sharing) : ledger_(ledger), sharing_(sharing) {}

  /**
   * @brief Adds a claimed block as a free one.
   * @param missing  the first of the block's points that its lane would have to wait for (see
   *                 `missing`); nullptr if the lane may have it now
   */
  void put(Block* block, const Point* missing);
  /** @brief Takes out a free block and claims it. */
  void claim(Block* block);

  /** @brief Returns the lane of a stream (`nobodys()` for an invalid id); nullptr if it has none.
   */
  [[nodiscard]] Lane* find(StreamId stream) noexcept {
    if (!stream.valid()) return &nobodys_;
    if (stream.slot < lanes_.size()) {
      Lane* const lane = lanes_[stream.slot].get();
      if (lane != nullptr && lane->stream == stream) return lane;
    }
    return find_former(stream);
  }
  [[nodiscard]] const Lane* find(StreamId stream) const noexcept;
  /** @brief Returns the lane of a stream; makes it if needed. Returns `nobodys()` for a stream
   * without a lane whose slot belongs to a later stream. */
  [[nodiscard]] Lane& lane(StreamId stream);
  [[nodiscard]] Lane& nobodys() noexcept { return nobodys_; }
  [[nodiscard]] const Lane& nobodys() const noexcept { return nobodys_; }
  /** @brief Returns a lane with blocks whose stream no longer exists and whose work is complete, or
   * nullptr. */
  [[nodiscard]] Lane* former() noexcept {
    return former_.empty() ? nullptr : former_.begin()->second.get();
  }
  /** @brief Removes a lane that `former` returned. It has no blocks. */
  void forget(StreamId stream) { former_.erase(stream); }

  /** @brief Claims the draining blocks that have become ready for their lane, and returns them. */
  [[nodiscard]] const std::vector<Block*>& drained();
  /** @brief Moves blocks that have completed since the last call to the complete blocks. */
  void settle();

  /** @brief The blocks of all streams' lanes that were complete at the last `settle`. */
  [[nodiscard]] const auto& complete(bool small) const noexcept { return complete_[small ? 1 : 0]; }
  /** @brief Returns the lanes of `streams`, and lanes with blocks that wait for one of them, but
   * not the lane `but`. At most `most` lanes. */
  [[nodiscard]] std::vector<Lane*> waiting_for(const std::vector<StreamId>& streams,
                                               const Lane* but, std::size_t most);
  /**
   * @brief Lists all unlisted blocks: each joins the complete blocks, or the queue for its first
   *        incomplete point. Call it before a search of more than one lane.
   * @param listed  called with each block
   */
  template <typename Listed>
  void list_all(const Listed& listed) {
    while (!with_unlisted_.empty()) listed(list_oldest(*with_unlisted_.back()));
  }
  /** @brief Lists the oldest unlisted block of the block's lane if the lane has too many of them.
   */
  template <typename Listed>
  void list_surplus(const Block* block, const Listed& listed) {
    if (block->waits != BlockWaits::unlisted) return;
    Lane& lane = *find(block->lane);
    if (lane.unlisted.size() > Unlisted::kMost) listed(list_oldest(lane));
  }

  [[nodiscard]] bool any_draining() const noexcept { return !by_kind_[1].empty(); }
  [[nodiscard]] bool any_waits() const noexcept { return !by_kind_[0].empty() || any_draining(); }
  /** @brief Returns the latest points of queues, joined to one for each of up to `most` streams. */
  [[nodiscard]] PointSet newest_points(std::size_t most) const;
  /** @brief The earliest and the latest point that the blocks of a queue wait for. */
  struct Wait {
    Point oldest, newest;
  };
  /** @brief Returns the waits of up to `most` queues, of other queues in the next call. */
  [[nodiscard]] std::vector<Wait> some_waits(std::size_t most);
  /** @brief Returns up to `most` lanes with queued blocks. */
  [[nodiscard]] std::vector<Lane*> waiting(std::size_t most);

  /** @brief Returns whether `user` may have the block now. */
  [[nodiscard]] bool ready(const Block& block, StreamId user) const {
    return missing(block, user) == nullptr;
  }
  /** @brief Returns the block's first point that `user` would have to wait for, or nullptr. */
  [[nodiscard]] const Point* missing(const Block& block, StreamId user) const;
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] const FreeSegments& free_segments() const noexcept { return free_segments_; }
  /** @brief Calls `visit` with the lanes until it returns false. */
  void visit_lanes(const std::function<bool(const Lane&)>& visit) const;
  /** @brief Calls `visit` with the queues that have blocks until it returns false. */
  void visit_queues(const std::function<bool(const WaitQueue&)>& visit) const;
  /** @brief Returns whether the free block is in exactly the indexes where it belongs. For checks
   * of the invariants. */
  [[nodiscard]] bool holds(const Block* block) const;

 private:
  using Queues = std::vector<WaitQueue*>;

  [[nodiscard]] Lane* find_former(StreamId stream) noexcept;
  void enqueue(Lane& lane, Block* block, Point point, BlockWaits kind);
  WaitQueue& queue_of(Lane& lane, StreamId stream, BlockWaits kind);
  void dequeue(Block* block);
  Queues& of_kind(BlockWaits kind) noexcept {
    return by_kind_[kind == BlockWaits::for_all ? 1 : 0];
  }
  [[nodiscard]] bool passed(Point point, StreamId user) const;
  void wait_for_others(Lane& lane, Block* block);
  Block* list_oldest(Lane& lane);
  void put_unlisted(Lane& lane, Block* block);
  void take_unlisted(Lane& lane, Block* block);
  void settle(WaitQueue* queue);
  void pop_passed(WaitQueue* queue, StreamId user);

  const Ledger& ledger_;
  const Sharing sharing_;
  std::pmr::unsynchronized_pool_resource memory_;  // of the queues
  std::vector<std::unique_ptr<Lane>> lanes_;       // by slot, for the latest stream of each slot
  std::unordered_map<StreamId, std::unique_ptr<Lane>> former_;  // of earlier streams of the slots
  Lane nobodys_{StreamId{}};
  std::array<SizeIndex<&WhileFree::among_complete>, 2> complete_;
  std::vector<Lane*> with_unlisted_;
  FreeSegments free_segments_;
  std::array<Queues, 2> by_kind_;     // queues that have blocks
  std::vector<Queues> on_stream_;     // the same queues, by the slot of the stream waited for
  std::uint64_t settled_ = 0;         // position of `settle` in the ledger's list of progress
  std::vector<StreamId> progressed_;  // of `settle`
  // Memory that calls use again. Blocks that other streams use make and empty queues often.
  Queues looked_at_;
  std::vector<Block*> passed_, drained_;
  std::vector<LaneQueues::node_type> spare_queues_;
  std::uint64_t visits_ = 0;  // number of the last list of lanes (Lane::visited)
  std::uint64_t looks_ = 0;   // calls of some_waits
  std::size_t blocks_ = 0;
};

}  // namespace millrace
