#pragma once

#include <cstddef>
#include <mutex>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief Keeps the fronts consistent with the rest of the allocator: which stream a front serves,
 *        which counts the meter lacks, and when kept blocks return to the shelves, where all
 *        streams find them. Callers hold the allocator's lock.
 */
class FrontUpkeep {
 public:
  FrontUpkeep(Stock& stock, const Reports& reports, FreeBlocks& free_blocks)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks) {}

  /** @brief While an object exists, fronts serve nothing, and the meter has all counts. */
  class Paused {
   public:
    explicit Paused(FrontUpkeep& upkeep);
    ~Paused() { upkeep_.stock_.shut.store(upkeep_.reports_.any(), std::memory_order_release); }
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    FrontUpkeep& upkeep_;
  };

  /**
   * @brief Makes the front of the stream's slot serve the stream, and returns it.
   * @return nullptr if the policy has no fronts, or the stream is captured, invalid, or older than
   *         the stream that the front serves
   */
  Front* of(StreamId stream);
  /**
   * @brief Locks the front of the live block's stream. The lock is empty if no front serves the
   *        stream.
   */
  [[nodiscard]] std::unique_lock<SpinLock> hold(const Block& block) const {
    Front* const front = stock_.has_fronts ? stock_.fronts.find(block.lane) : nullptr;
    return front != nullptr ? stock_.turns.hold(*front) : std::unique_lock<SpinLock>{};
  }
  /**
   * @brief Closes the stream's front: all requests of the stream then take the allocator's lock.
   */
  void close(StreamId stream);

  // Counting.
  /** @brief Counts a block that is given out. The front then keeps freed blocks of its size. */
  void count_out(Block& block, const Request& request);
  /**
   * @brief Counts a live block that is freed, and releases its record of other uses.
   * @param uses_may_go_on  true: the block may drain, so the meter counts the free now and no tally
   *                        does
   * @return what was known of the block while it was live
   */
  WhileLive count_in(Block& block, bool uses_may_go_on);
  /**
   * @brief Adds the counts of the stream's front to the meter. Call it before the meter counts more
   *        of the stream's blocks.
   */
  void add_tally(StreamId stream);
  /** @brief Returns what the stream has needed so far; zeros if it has no front. */
  [[nodiscard]] Demand demand_of(StreamId stream) const;
  /** @brief Resets the recorded needs of all streams to their live bytes. */
  void forget_demands();
  /**
   * @brief Lets the burst of the marker's stream continue. Call it for a marker that the allocator
   *        recorded: only the program's markers end a burst.
   */
  void continue_burst(Point marker);

  // Emptying.
  /**
   * @brief Releases the blocks of the front that are in the way of a block that fits better, so
   *        that they can merge. Call it before the request searches further.
   */
  void look_further(Front& front, const Request& request);
  /**
   * @brief For a small request that its lane cannot serve: releases those blocks of its front that
   *        may merge into one for it. The many smaller blocks stay.
   * @return whether it released any
   */
  bool empty_near(const Request& request);
  /**
   * @brief Releases the blocks of all fronts. Call it before a search of several streams' blocks.
   */
  void empty();
  /** @brief The same, for blocks that could serve the request, alone or merged. */
  void empty_for(const Request& request);
  /** @brief Releases small blocks of about `least` bytes or more, and all blocks that wait. */
  void empty_small(std::size_t least = ClassBins::kGranule);

 private:
  [[nodiscard]] Block* retire(Front& front, StreamId next);
  void empty_large();
  void give_up(Block* first);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
};

}  // namespace millrace
