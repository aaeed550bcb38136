#pragma once

#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace millrace::virtual_cuda {

/** @brief Builds the operations of one launch of a graph. */
class Launch {
 public:
  enum class Of {
    program,   ///< the caller announces the operations
    body,      ///< a running conditional node adds the operations
    prospect,  ///< a conditional node may run them: only the checker gets them
  };

  Launch(unsigned device, Of of) : device_{device}, of_{of} {}

  /** @brief Adds all nodes after `start`. @return an operation that is done when all nodes are */
  OperationRef add(const Graph& graph, const std::vector<OperationRef>& start);
  OperationRef add(Work work, const std::vector<OperationRef>& after) {
    return add(std::move(work), after, after);
  }
  /** @brief The operations that the caller must announce, in this order. */
  [[nodiscard]] const std::vector<OperationRef>& made() const noexcept { return made_; }

 private:
  /** @param shown  the predecessors that the checker gets */
  OperationRef add(Work work, const std::vector<OperationRef>& after,
                   const std::vector<OperationRef>& shown);
  OperationRef add_node(const CUgraphNode_st& node, std::vector<OperationRef> after);
  OperationRef add_conditional(const ConditionalWork& work, const std::vector<OperationRef>& after);

  unsigned device_;
  Of of_;
  std::vector<OperationRef> made_;
  std::vector<OperationRef> prospects_;  // kept alive: addresses identify them
};

}  // namespace millrace::virtual_cuda
