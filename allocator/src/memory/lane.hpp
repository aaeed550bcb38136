#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "memory/size_index.hpp"
#include "memory/wait_queue.hpp"

namespace millrace {

/** @brief The free blocks of a lane in one of the two pools (large or small requests). */
struct Shelf {
  SizeIndex<&WhileFree::by_size> ready;     // BlockWaits::nothing and for_others
  SizeIndex<&WhileFree::by_size> draining;  // BlockWaits::for_all

  [[nodiscard]] std::size_t bytes() const noexcept { return ready.bytes() + draining.bytes(); }
  [[nodiscard]] std::size_t blocks() const noexcept { return ready.size() + draining.size(); }
};

/**
 * @brief The unlisted blocks of a lane, in the order of their frees: ready for the lane's stream,
 *        not checked for other streams yet.
 *
 * A stream takes most of its freed blocks back itself. So a block is listed for other streams only
 * when one of them searches beyond its own lane.
 */
class Unlisted {
 public:
  void push(Block* block) noexcept {
    block->free.queue_previous() = newest_;
    block->free.queue_next() = nullptr;
    (newest_ == nullptr ? oldest_ : newest_->free.queue_next()) = block;
    newest_ = block;
    ++size_;
  }
  void erase(Block* block) noexcept {
    Block *const before = block->free.queue_previous(), *const behind = block->free.queue_next();
    (before == nullptr ? oldest_ : before->free.queue_next()) = behind;
    (behind == nullptr ? newest_ : behind->free.queue_previous()) = before;
    --size_;
  }
  [[nodiscard]] Block* oldest() const noexcept { return oldest_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /** @brief Maximum number of blocks, which limits the time of the search that lists all of them.
   */
  static constexpr std::size_t kMost = 1024;

 private:
  Block *oldest_ = nullptr, *newest_ = nullptr;
  std::size_t size_ = 0;
};

/** @brief Queues by the stream that their blocks wait for, and by kind: for_others or for_all. */
using LaneQueues = std::map<std::pair<StreamId, BlockWaits>, std::unique_ptr<WaitQueue>>;

/**
 * @brief The free blocks that are kept for one stream.
 *
 * One more lane, of no stream, has memory that no stream has used, and memory of streams that no
 * longer exist.
 */
struct Lane {
  explicit Lane(StreamId id) : stream(id) {}

  StreamId stream;
  std::array<Shelf, 2> shelves;  // of large and of small segments
  /** Blocks that make other streams wait for this lane's stream; null until there was one. Kept
   * when it is empty, because most blocks use it. */
  std::unique_ptr<WaitQueue> own;
  /** The other queues. None is empty. */
  LaneQueues queues;
  Unlisted unlisted;
  std::size_t place_among_unlisted = 0;  // index in the list of lanes with unlisted blocks
  std::uint64_t visited = 0;             // number of the last list with the lane: no list twice

  [[nodiscard]] Shelf& shelf(bool small) noexcept { return shelves[small ? 1 : 0]; }
  [[nodiscard]] std::size_t blocks() const noexcept {
    return shelves[0].blocks() + shelves[1].blocks();
  }
};

}  // namespace millrace
