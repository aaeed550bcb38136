#pragma once

#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/** @brief Puts the operations of a graph together, for one launch of it. */
class Launch {
 public:
  enum class Of {
    program,   ///< the caller announces the operations
    body,      ///< of a conditional node that is running
    prospect,  ///< what a conditional node may run: only the checker is told
  };

  Launch(unsigned device, Of of) : device_{device}, of_{of} {}

  /** @brief Adds all nodes after `start`. @return the operation that ends when all have */
  OperationRef add(const Graph& graph, const std::vector<OperationRef>& start);
  OperationRef add(Work work, const std::vector<OperationRef>& after) {
    return add(std::move(work), after, after);
  }
  /** @brief What is to be announced, in this order. */
  [[nodiscard]] const std::vector<OperationRef>& made() const noexcept { return made_; }

 private:
  /** @param shown  what the checker is told that it comes after */
  OperationRef add(Work work, const std::vector<OperationRef>& after,
                   const std::vector<OperationRef>& shown);
  OperationRef add_node(const CUgraphNode_st& node, std::vector<OperationRef> after);
  OperationRef add_conditional(const ConditionalWork& work, const std::vector<OperationRef>& after);

  unsigned device_;
  Of of_;
  std::vector<OperationRef> made_;
  std::vector<OperationRef> prospects_;  // the checker knows them by their addresses
};

}  // namespace millrace::virtual_cuda
