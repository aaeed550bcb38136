#pragma once

#include <cstddef>
#include <mutex>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief What keeps the fronts in step with the rest of the allocator, under its lock: which may
 *        serve, what the meter has to count, and when kept blocks are put where all streams see
 *        them.
 */
class FrontUpkeep {
 public:
  FrontUpkeep(Stock& stock, const Reports& reports, FreeBlocks& free_blocks)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks) {}

  /** @brief While there is one, fronts serve nothing, and the meter holds all. */
  class Paused {
   public:
    explicit Paused(FrontUpkeep& upkeep);
    ~Paused() { upkeep_.stock_.shut.store(upkeep_.reports_.any(), std::memory_order_release); }
    Paused(const Paused&) = delete;
    Paused& operator=(const Paused&) = delete;

   private:
    FrontUpkeep& upkeep_;
  };

  /** @brief The front that serves the stream from now on, if one may. */
  Front* of(StreamId stream);
  /** @brief The lock of the front of the live block's stream, if one serves it. */
  [[nodiscard]] std::unique_lock<SpinLock> hold(const Block& block) const {
    Front* const front = stock_.has_fronts ? stock_.fronts.find(block.lane) : nullptr;
    return front != nullptr ? stock_.turns.hold(*front) : std::unique_lock<SpinLock>{};
  }
  /** @brief Sends all requests of the stream through the allocator's lock. */
  void close(StreamId stream);

  // Counting.
  /** @brief Counts a block that is given out. Others of its size are kept when they come back. */
  void count_out(Block& block, const Request& request);
  /**
   * @brief Counts a live block that is freed.
   * @param uses_may_go_on  the meter learns of the free when it counts them
   * @return what it was
   */
  WhileLive count_in(Block& block, bool uses_may_go_on);
  /** @brief Before the meter counts more of the stream's blocks. */
  void add_tally(StreamId stream);
  [[nodiscard]] Demand demand_of(StreamId stream) const;
  void forget_demands();
  /** @brief A marker of ours ends no burst: those are the program's. */
  void continue_burst(Point marker);

  // Emptying.
  /**
   * @brief Before a request looks further, what its stream's front keeps in the way of a block that
   *        fits better is put where it can be merged.
   */
  void look_further(Front& front, const Request& request);
  /**
   * @brief A small request that its lane cannot serve: of what its front keeps, the blocks that may
   *        merge into one for it. The others, which are many and little, stay.
   * @return whether there were any
   */
  bool empty_near(const Request& request);
  /** @brief Before anybody looks at more than one stream's blocks. */
  void empty();
  /** @brief The same for one request. */
  void empty_for(const Request& request);
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
