#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/quick_uses.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief Serves the usual request and the usual free: a block that a stream freed goes into the
 *        stream's front, and serves the stream's next request of its size.
 */
class QuickPath {
 public:
  QuickPath(Stock& stock, const Reports& reports, FrontUpkeep& upkeep, QuickUses& uses)
      : stock_(stock), reports_(reports), upkeep_(upkeep), uses_(uses) {}

  struct Answer {
    Block* block = nullptr;
    bool ask = false;  // the front could not serve now: ask it again under the lock
  };

  // Without the allocator's lock.
  /** @brief Takes a block that fits from the front of the owner's stream. */
  Answer take(const PlainRequest& request, QuickBins::Size size);
  /**
   * @brief Serves one stream's requests for these sizes, in this order, until its front cannot
   *        serve one. Takes one turn of the front.
   * @param request  what the requests have in common
   * @return number of sizes that are served; sizes of 0 get no block
   */
  std::size_t take(std::span<const std::size_t> sizes, PlainRequest request,
                   std::vector<Block*>& blocks);
  /**
   * @brief Frees the block into the front of its stream, if the front accepts it.
   * @param stream  where the block is freed; nullptr: on its owner
   */
  Kept keep(void* address, const StreamRef* stream);
  /**
   * @brief Keeps the claimed blocks that the fronts of their streams accept, and replaces each by
   *        nullptr. Successive blocks of one stream take one turn.
   */
  void keep(std::span<Block*> blocks, const StreamRef* stream);
  /**
   * @brief Frees a batch of one stream's blocks that no other stream has used. The front keeps the
   *        blocks that it accepts, in one turn.
   * @return the other blocks, claimed; nothing if the batch is of another kind, which is unchanged
   */
  std::optional<std::vector<Block*>> keep_batch(std::span<void* const> addresses,
                                                const StreamRef* stream);

  // Under the allocator's lock: like `take` and `keep`.
  Block* take_alone(const Request& request);
  bool keep_alone(Block* block, StreamRef stream);

 private:
  static constexpr std::uint64_t kIdsAtOnce = 1024;

  // These take the stock as an argument: otherwise `stock_` is loaded again after each atomic
  // operation.
  [[nodiscard]] static Point passed_wait(const Stock& stock, const Front& front, StreamId stream,
                                         QuickBins::Size size);
  static Block* pop(Stock& stock, Turns::Turn& turn, Front& front, const PlainRequest& request,
                    QuickBins::Size size);
  static void give_again(const Stock& stock, Front& front, Block* block,
                         const PlainRequest& request, std::uint64_t id);
  [[nodiscard]] static bool keepable(const Stock& stock, const Front& front, const Block& block,
                                     StreamId stream, QuickBins::Size size);
  static Kept keep_plain(Stock& stock, Turns::Turn& turn, Front& front, Block* block, Point point);
  static void push(Stock& stock, Front& front, Block* block, QuickBins::Size size, Point point);

  bool claim_plain(std::span<void* const> addresses, StreamId owner, std::vector<Block*>& claimed);

  Stock& stock_;
  const Reports& reports_;
  FrontUpkeep& upkeep_;
  QuickUses& uses_;
};

}  // namespace millrace
