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

/** @brief The free blocks of a lane in one of the two pools. */
struct Shelf {
  SizeIndex<&WhileFree::by_size> ready;     // BlockWaits::nothing and for_others
  SizeIndex<&WhileFree::by_size> draining;  // BlockWaits::for_all

  [[nodiscard]] std::size_t bytes() const noexcept { return ready.bytes() + draining.bytes(); }
  [[nodiscard]] std::size_t blocks() const noexcept { return ready.size() + draining.size(); }
};

/**
 * @brief Free blocks that only their own lane was asked about, in the order in which they came.
 *
 * Most of what a stream frees it takes back itself. What other streams would have to know of such a
 * block is found out when one of them looks.
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

  /** @brief The most that it holds, so that a look at it stays short. */
  static constexpr std::size_t kMost = 1024;

 private:
  Block *oldest_ = nullptr, *newest_ = nullptr;
  std::size_t size_ = 0;
};

/** @brief By the stream that is waited for, and by which stream waits. */
using LaneQueues = std::map<std::pair<StreamId, BlockWaits>, std::unique_ptr<WaitQueue>>;

/** @brief What is kept for one stream; one more lane has memory that no stream has used. */
struct Lane {
  explicit Lane(StreamId id) : stream(id) {}

  StreamId stream;
  std::array<Shelf, 2> shelves;  // of large and of small segments
  /** Its blocks that wait for its own stream only; null until it has had one. */
  std::unique_ptr<WaitQueue> own;
  /** Those that wait for another stream, or in another way. None is empty. */
  LaneQueues queues;
  Unlisted unlisted;
  std::size_t place_among_unlisted = 0;  // where the list of lanes that have any holds it
  std::uint64_t visited = 0;

  [[nodiscard]] Shelf& shelf(bool small) noexcept { return shelves[small ? 1 : 0]; }
  [[nodiscard]] std::size_t blocks() const noexcept {
    return shelves[0].blocks() + shelves[1].blocks();
  }
};

}  // namespace millrace
