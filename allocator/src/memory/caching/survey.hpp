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

/** @brief What of the free memory a stream could have now, and why not the rest. Changes nothing.
 */
class Survey {
 public:
  Survey(Stock& stock, const GraphPools& graphs, const Completions& completions,
         const Allowance& allowance)
      : stock_(stock), graphs_(graphs), completions_(completions), allowance_(allowance) {}

  /** @brief What the message of a request that fails says, but for what the device has. */
  [[nodiscard]] MemoryPicture picture(const Request& request) const;
  /** @brief Looks at all blocks. */
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
