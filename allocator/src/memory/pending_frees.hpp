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
 * @brief Freed blocks that are kept back until the device has finished what other streams than
 *        their lane's did with them (FreeWhen::polled). Locks nothing.
 */
class PendingFrees {
 public:
  explicit PendingFrees(const Ledger& ledger) : ledger_(ledger) {}

  void insert(Block* block);
  /**
   * @brief Takes out those that wait for nothing more, in the order of their frees.
   * @return valid until the next call
   */
  [[nodiscard]] const std::vector<Block*>& completed();
  /** @brief All that they wait for, and of each stream nothing that the latest of them does not. */
  [[nodiscard]] PointSet points() const;
  /** @brief Visits them, in no order, until `visit` says false. */
  void visit(const std::function<bool(const Block&)>& visit) const;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /** @brief Whether one waited for nothing when it was inserted: no completion will tell of it. */
  [[nodiscard]] bool any_done() const noexcept { return !done_.empty(); }

 private:
  /** @brief What is kept back has points of the stream, or had some not long ago. */
  struct Awaited {
    Awaited(StreamId stream, std::pmr::memory_resource& memory)
        : queue(nullptr, stream, BlockWaits::for_all, memory) {}
    WaitQueue queue;         // of the blocks that wait for the stream; may be empty
    Marker last = 0;         // of all points of the stream
    std::size_t blocks = 0;  // that have one; 0: it is idle
    std::size_t place = 0;   // in `streams_`
  };
  // Not by its slot: a caller's point may be of a stream that there never was.
  using Awaiteds = std::unordered_map<StreamId, Awaited>;

  /** @return false if it waits for nothing */
  bool enqueue(Block* block);
  Awaited& awaited(StreamId stream);
  void forget(const Block& block);
  void retire(StreamId idle);

  const Ledger& ledger_;
  std::pmr::unsynchronized_pool_resource memory_;
  Awaiteds awaited_;
  std::vector<Awaited*> streams_;  // the same, as a list
  std::vector<Block*> done_;       // that wait for nothing, and are out with the next look
  std::uint64_t turns_ = 0;
  std::size_t size_ = 0, bytes_ = 0;
  // A stream comes and goes with nearly every block that is kept back: a few idle ones stay where
  // they are, and the memory of others is used again.
  std::size_t idle_ = 0;
  std::vector<Awaiteds::node_type> spare_;
  std::vector<Block*> passed_, completed_;
};

}  // namespace millrace
