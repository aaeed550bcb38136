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
 * @brief Where free blocks are found: by lane, by size, and by what they wait for. Decides nothing,
 *        locks nothing.
 *
 * A block is in its lane's index of what is ready for the lane's stream, or of what is not. Until
 * it is complete it also waits in one queue, for one of its points; when that has come it waits for
 * the next one, and so on. What is complete is in one more index, for all streams.
 */
class Shelves {
 public:
  Shelves(const Ledger& ledger, Sharing sharing) : ledger_(ledger), sharing_(sharing) {}

  /**
   * @brief Claimed -> free.
   * @param missing  of the block: the first point that its lane would have to wait for, as
   * `missing` says; nullptr: its lane may have it now
   */
  void put(Block* block, const Point* missing);
  /** @brief Free -> claimed. */
  void claim(Block* block);

  /** @brief nullptr: nothing was ever kept for it. */
  [[nodiscard]] Lane* find(StreamId stream) noexcept {
    if (stream.valid() && stream.slot < lanes_.size()) {
      Lane* const lane = lanes_[stream.slot].get();
      if (lane != nullptr && lane->stream == stream) return lane;
    }
    return find_elsewhere(stream);
  }
  [[nodiscard]] const Lane* find(StreamId stream) const noexcept;
  /** @brief Makes it if needed. The lane of no stream, if the stream does not exist. */
  [[nodiscard]] Lane& lane(StreamId stream);
  [[nodiscard]] Lane& nobodys() noexcept { return nobodys_; }
  [[nodiscard]] const Lane& nobodys() const noexcept { return nobodys_; }
  /** @brief A lane with blocks whose stream is gone, all its work complete; nullptr: none is. */
  [[nodiscard]] Lane* former() noexcept {
    return former_.empty() ? nullptr : former_.begin()->second.get();
  }
  /** @brief Of a former lane without blocks. */
  void forget(StreamId stream) { former_.erase(stream); }

  /** @brief Claims the blocks that their lane can have since the last look. */
  [[nodiscard]] const std::vector<Block*>& drained();
  /** @brief Adds what has completed since the last look to what is complete. */
  void settle();

  /** @brief Blocks of all streams' lanes that are complete on the device, as `settle` saw it. */
  [[nodiscard]] const auto& complete(bool small) const noexcept { return complete_[small ? 1 : 0]; }
  /** @brief The lanes of `streams`, and others with blocks that wait for one of them; not `but`. */
  [[nodiscard]] std::vector<Lane*> waiting_for(const std::vector<StreamId>& streams,
                                               const Lane* but, std::size_t most);
  /**
   * @brief Finds out what other streams have to know of the unlisted blocks: call it before looking
   *        at more than one lane. Calls `listed` for each.
   */
  template <typename Listed>
  void list_all(const Listed& listed) {
    while (!with_unlisted_.empty()) listed(list_oldest(*with_unlisted_.back()));
  }
  /** @brief The same of the block's lane, as far as it has too many. */
  template <typename Listed>
  void list_surplus(const Block* block, const Listed& listed) {
    if (block->waits != BlockWaits::unlisted) return;
    Lane& lane = *find(block->lane);
    if (lane.unlisted.size() > Unlisted::kMost) listed(list_oldest(lane));
  }

  [[nodiscard]] bool any_waits() const noexcept {
    return !by_kind_[0].empty() || !by_kind_[1].empty();
  }
  /** @brief The latest that blocks of up to `most` queues wait for: a point a stream. */
  [[nodiscard]] PointSet newest_points(std::size_t most) const;
  /** @brief The earliest and the latest that blocks of a queue wait for. */
  struct Wait {
    Point oldest, newest;
  };
  /** @brief Those of up to `most` queues, and of others next time. */
  [[nodiscard]] std::vector<Wait> some_waits(std::size_t most);
  /** @brief Lanes with blocks that wait for anything. At most `most`. */
  [[nodiscard]] std::vector<Lane*> waiting(std::size_t most);

  /** @brief Whether `user` may have the block now. */
  [[nodiscard]] bool ready(const Block& block, StreamId user) const {
    return missing(block, user) == nullptr;
  }
  /** @brief The block's first point that `user` would have to wait for; nullptr: none. */
  [[nodiscard]] const Point* missing(const Block& block, StreamId user) const;
  [[nodiscard]] std::size_t blocks() const noexcept { return blocks_; }
  [[nodiscard]] const FreeSegments& free_segments() const noexcept { return free_segments_; }
  /** @brief Visits the lanes, until `visit` says false. */
  void visit_lanes(const std::function<bool(const Lane&)>& visit) const;
  /** @brief Visits the queues that have blocks, until `visit` says false. */
  void visit_queues(const std::function<bool(const WaitQueue&)>& visit) const;
  /** @brief Whether the free block is in each index where it belongs, for tests. */
  [[nodiscard]] bool holds(const Block* block) const;

 private:
  using Queues = std::vector<WaitQueue*>;

  [[nodiscard]] Lane* find_elsewhere(StreamId stream) noexcept;
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
  std::pmr::unsynchronized_pool_resource memory_;               // of the queues
  std::vector<std::unique_ptr<Lane>> lanes_;                    // by slot: of its latest stream
  std::unordered_map<StreamId, std::unique_ptr<Lane>> former_;  // of streams before it
  Lane nobodys_{StreamId{}};
  std::array<SizeIndex<&WhileFree::among_complete>, 2> complete_;
  std::vector<Lane*> with_unlisted_;
  FreeSegments free_segments_;
  std::array<Queues, 2> by_kind_;     // that have blocks
  std::vector<Queues> on_stream_;     // the same, by the slot of the stream that they wait for
  std::uint64_t settled_ = 0;         // how far `settle` has followed the ledger
  std::vector<StreamId> progressed_;  // of `settle`
  // Memory that is used again: a queue comes and goes with every other block that others use.
  Queues looked_at_;
  std::vector<Block*> passed_, drained_;
  std::vector<LaneQueues::node_type> spare_queues_;
  std::uint64_t visits_ = 0;
  std::uint64_t looks_ = 0;  // of some_waits
  std::size_t blocks_ = 0;
};

}  // namespace millrace
