#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "memory/wait_queue.hpp"
#include "millrace/ordering/ledger.hpp"

namespace millrace {

/**
 * @brief Freed blocks that stay pending until the device has completed the work of other streams
 *        than their lane's (FreeWhen::polled). Takes no lock.
 */
class PendingFrees {
 public:
  explicit PendingFrees(const Ledger& ledger) : ledger_(ledger) {}

  void insert(Block* block);
  /**
   * @brief Takes out the blocks that no longer wait for a point, in the order of their frees.
   * @return valid until the next call
   */
  [[nodiscard]] const std::vector<Block*>& completed();
  /** @brief Returns the blocks' latest point on each stream. Once these are complete, so are all.
   */
  [[nodiscard]] PointSet points() const;
  /** @brief Calls `visit` with the blocks, in no order, until it returns false. */
  void visit(const std::function<bool(const Block&)>& visit) const;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /** @brief Returns whether a block waited for nothing when it was inserted. Then `completed` has a
   * result although no marker has completed since. */
  [[nodiscard]] bool any_done() const noexcept { return !done_.empty(); }

 private:
  /** @brief A stream on which blocks have points, or had some not long ago. */
  struct Awaited {
    Awaited(StreamId stream, std::pmr::memory_resource& memory)
        : queue(nullptr, stream, BlockWaits::for_all, memory) {}
    WaitQueue queue;         // the blocks that wait for this stream at present; may be empty
    Marker last = 0;         // the latest marker of all points on the stream
    std::size_t blocks = 0;  // number of blocks with a point on the stream; 0: it is idle
    std::size_t place = 0;   // index in `streams_`
  };
  // Not indexed by slot: the point of a caller's free may name a stream that never existed.
  using Awaiteds = std::unordered_map<StreamId, Awaited>;

  /** @return false if the block waits for nothing */
  bool enqueue(Block* block);
  Awaited& awaited(StreamId stream);
  void forget(const Block& block);
  void retire(StreamId idle);

  const Ledger& ledger_;
  std::pmr::unsynchronized_pool_resource memory_;
  Awaiteds awaited_;
  std::vector<Awaited*> streams_;  // the values of `awaited_`
  std::vector<Block*> done_;       // blocks that waited for nothing when they were inserted
  std::uint64_t turns_ = 0;
  std::size_t size_ = 0, bytes_ = 0;
  // Nearly every pending block makes a stream awaited, and idle again when it is complete. So a few
  // idle streams keep their entries, and the memory of other entries is used again.
  std::size_t idle_ = 0;
  std::vector<Awaiteds::node_type> spare_;
  std::vector<Block*> passed_, completed_;
};

}  // namespace millrace
