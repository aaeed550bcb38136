#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace::packing {

/** Finds the placed nodes that begin before a node and last beyond it. It is a heap-shaped tree of
 * maxima. */
class LastingTree {
 public:
  using Node = ConflictGraph::Node;

  explicit LastingTree(Node size) : leaves_(std::bit_ceil(std::max<Node>(size, 1))) {
    until_.assign(std::size_t{2} * leaves_, 0);
  }

  void place(Node node, Node until) {
    for (std::size_t at = leaves_ + node; at > 0; at /= 2) until_[at] = std::max(until_[at], until);
  }

  /** Returns how long a placed node lasts; 0 for other nodes. */
  [[nodiscard]] Node until(Node node) const { return until_[leaves_ + node]; }

  /** @param visit  returns whether to continue @return whether every call returned true */
  template <typename Visit>
  bool visit_lasting(Node beyond, Visit visit) const {
    return visit_below(1, leaves_, beyond, beyond, visit);
  }

 private:
  template <typename Visit>
  bool visit_below(std::size_t at, Node width, Node end, Node beyond, Visit& visit) const {
    if (end == 0 || until_[at] <= beyond) return true;
    if (width == 1) return visit(static_cast<Node>(at - leaves_));
    const Node half = width / 2;
    return visit_below(2 * at, half, std::min(end, half), beyond, visit) &&
           visit_below(2 * at + 1, half, end > half ? end - half : 0, beyond, visit);
  }

  Node leaves_;
  std::vector<Node> until_;
};

}  // namespace millrace::packing
