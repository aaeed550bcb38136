#pragma once

#include <cstddef>
#include <string>

#include "memory/caching/allowance.hpp"
#include "memory/caching/completions.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/graph/graph_pools.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/memory/out_of_memory.hpp"

namespace millrace {

/**
 * @brief Determines which free memory a stream could use now, and why it cannot use the rest.
 *        Changes nothing. Callers hold the lock.
 */
class Survey {
 public:
  Survey(Stock& stock, const GraphPools& graphs, const Completions& completions,
         const Allowance& allowance)
      : stock_(stock), graphs_(graphs), completions_(completions), allowance_(allowance) {}

  /**
   * @brief Returns the data of the message of a request that fails, except the device's own
   *        numbers.
   */
  [[nodiscard]] MemoryPicture picture(const Request& request) const;
  /**
   * @brief Returns the bytes that the stream could use now, and the stranded bytes. Visits all
   *        blocks.
   */
  [[nodiscard]] UsableBytes usable(StreamId stream) const;

 private:
  void picture_of_lanes(StreamId user, MemoryPicture& seen) const;
  void picture_of_queues(const Request& request, MemoryPicture& seen) const;
  [[nodiscard]] std::size_t largest_run(StreamId stream) const;
  [[nodiscard]] bool may_have(const Block& block, StreamId stream) const;
  [[nodiscard]] std::string usable_when(const Block& block, const Request& request) const;

  Stock& stock_;
  const GraphPools& graphs_;
  const Completions& completions_;
  const Allowance& allowance_;
};

}  // namespace millrace
