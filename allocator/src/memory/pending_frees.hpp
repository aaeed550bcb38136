#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory/wait_queue.hpp"
#include "millrace/ordering/ledger.hpp"
#include "ordering/open_streams.hpp"

namespace millrace {

/**
 * @brief Freed blocks that stay pending until the device has completed the work of other streams
 *        than their lane's (FreeWhen::polled). Takes no lock.
 */
class PendingFrees {
 public:
  explicit PendingFrees(const Ledger& ledger);

  void insert(Block* block);
  /**
   * @brief Takes out the blocks that no longer wait for a point, in the order of their frees.
   * @return valid until the next call
   * @throws std::bad_alloc  no block is taken out; the next call takes out all of them
   */
  [[nodiscard]] const std::vector<Block*>& completed();
  /**
   * @brief Returns, for each stream, the latest point that a block waits for, or later. Once these
   *        are complete, `completed` takes out all blocks.
   */
  [[nodiscard]] PointSet points() const;
  /** @brief Takes back some of the blocks that the latest call of `completed` returned. */
  void put_back(std::span<Block* const> blocks) noexcept;
  /** @brief Calls `visit` with the blocks, in no order, until it returns false. */
  void visit(const std::function<bool(const Block&)>& visit) const;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /** @brief Returns whether `completed` may have a result although no marker has completed since.
   */
  [[nodiscard]] bool any_done() const noexcept { return !done_.empty() || !passed_.empty(); }

 private:
  /**
   * @brief A stream for which blocks wait, or did not long ago. They do not wait for their own
   *        lanes, because the stream's own order covers that work.
   */
  struct Awaited {
    Awaited(StreamId stream, std::pmr::memory_resource& memory)
        : queue(nullptr, stream, BlockWaits::for_all, memory) {}
    [[nodiscard]] bool idle() const noexcept { return later == 0 && queue.empty(); }

    WaitQueue queue;        // the blocks that wait for this stream at present
    std::size_t later = 0;  // number of blocks that will wait for it after other streams
    Marker last_later = 0;  // the latest marker that they will wait for
    std::size_t place = 0;  // index in `streams_`
  };
  // Not indexed by slot: the point of a caller's free may name a stream that never existed.
  using Awaiteds = std::unordered_map<StreamId, Awaited>;

  void make_room();
  /** Notes that the block will wait for its points of later streams after the one of `first`. */
  void wait_later(const Block& block, StreamId first);
  /**
   * Lets the block, whose points up to the one of `waited_for` are complete, wait for its next one.
   * @param waited_for  raised to the last point that was found complete, also if it throws
   * @return false if it waits for nothing more
   */
  bool wait_further(Block* block, StreamId& waited_for);
  [[nodiscard]] Awaited& awaited(StreamId stream) {
    Awaited* const known = recent(stream);
    return known != nullptr && known->queue.stream() == stream ? *known : make_awaited(stream);
  }
  [[nodiscard]] Awaited*& recent(StreamId stream) noexcept {
    return recent_[stream.slot % recent_.size()];
  }
  Awaited& make_awaited(StreamId stream);
  void retire_idle();  // but a few
  void retire(Awaited& idle);

  const ordering::OpenStreams ledger_;
  std::pmr::unsynchronized_pool_resource memory_;
  Awaiteds awaited_;
  std::array<Awaited*, 16> recent_{};  // the entry that was found last, by slot modulo the size
  std::vector<Awaited*> streams_;      // the values of `awaited_`
  std::vector<Block*> done_;           // blocks that wait for nothing
  std::uint64_t turns_ = 0;
  std::size_t size_ = 0, bytes_ = 0;
  // Nearly every pending block makes a stream awaited, and idle again when it is complete. So a few
  // idle streams keep their entries, and the memory of other entries is used again.
  std::vector<Awaiteds::node_type> spare_;
  std::vector<std::pair<Block*, StreamId>> passed_;  // blocks to wait further; the stream before
  std::vector<Block*> completed_;                    // what `completed` returned
};

}  // namespace millrace
