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
 * @brief The usual request and the usual free: a block of its size class that its stream freed
 *        itself goes into that stream's front and out again.
 */
class QuickPath {
 public:
  QuickPath(Stock& stock, const Reports& reports, FrontUpkeep& upkeep, QuickUses& uses)
      : stock_(stock), reports_(reports), upkeep_(upkeep), uses_(uses) {}

  struct Answer {
    Block* block = nullptr;
    bool ask = false;  // again, under the lock: the front serves nothing now
  };

  // Without the allocator's lock.
  /** @brief A block that fits, of those that the stream freed since anybody last looked further. */
  Answer take(const PlainRequest& request, QuickBins::Size size);
  /**
   * @brief Serves one stream's requests for these sizes, in this order, as many as its front can;
   *        all in one turn.
   * @param request  what they have in common
   * @return how many of the sizes are served
   */
  std::size_t take(std::span<const std::size_t> sizes, PlainRequest request,
                   std::vector<Block*>& blocks);
  /** @param stream  where the block is freed; nullptr: where it is owned */
  Kept keep(void* address, const StreamRef* stream);
  /**
   * @brief Keeps those claimed blocks that their streams' fronts take, and puts nullptr in their
   *        place. Blocks of one stream that follow each other take one turn.
   */
  void keep(std::span<Block*> blocks, const StreamRef* stream);
  /**
   * @brief Frees a batch of one stream's blocks that no other has used: what its front keeps, in
   *        one turn.
   * @return the others, claimed; nothing: it is another batch, and nothing has happened
   */
  std::optional<std::vector<Block*>> keep_batch(std::span<void* const> addresses,
                                                const StreamRef* stream);

  // Under it.
  Block* take_alone(const Request& request);
  bool keep_alone(Block* block, StreamRef stream);

 private:
  static constexpr std::uint64_t kIdsAtOnce = 1024;

  // These take the stock: it would be loaded from here again after each atomic operation.
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
