#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/**
 * A maximum flow of bytes from each block to later ones that may have them.
 *
 * A block offers its bytes to each lane from a certain node on, so what a node can be offered is a
 * prefix of its lane's offers and a prefix of those made to everyone. Nodes are served in order:
 * from direct offers, then by making others swap. What can not be served has to be new memory; then
 * all that the search has reached is settled for good, and is never searched again.
 */
class ByteFlow {
 public:
  using Node = ConflictGraph::Node;

  explicit ByteFlow(const ConflictGraph& graph);

  /** Nodes that were reached by an unserved one, while none that may follow them was. */
  [[nodiscard]] std::vector<Node> minimum_cut() const;

 private:
  struct Offer {
    Node from;   ///< taken by this node at the earliest
    Node block;  ///< whose bytes they are
  };
  struct Handover {
    Node taker;
    std::size_t bytes;
  };
  struct Lane {
    std::vector<Offer> offers;         // by `from`
    std::vector<std::uint32_t> alive;  // union-find: the last offer up to here with bytes to spare
    std::size_t reached = 0;           // offers that this search has seen, settled ones included
    std::size_t settled = 0;

    [[nodiscard]] std::size_t open_to(Node taker) const;
    std::size_t last_alive(std::size_t count);
    void exhaust(std::size_t count) { alive[count] = static_cast<std::uint32_t>(count - 1); }
  };

  void serve(Node node);
  void take_offers(Lane& lane, Node node, std::size_t& missing);
  [[nodiscard]] bool search(Node node);
  [[nodiscard]] bool reach_offers(Lane& lane, Node taker);
  [[nodiscard]] bool reach(Node taker);
  std::size_t swap(Node node, std::size_t missing);
  void settle();
  void hand_over(Node block, Node taker, std::size_t bytes);
  void withdraw(Node block, Node taker, std::size_t bytes);
  [[nodiscard]] std::size_t handed(Node block, Node taker) const;
  [[nodiscard]] Lane& lane_of(Node node) { return lanes_[graph_.lane(node)]; }
  [[nodiscard]] Lane& everyone() { return lanes_.back(); }

  const ConflictGraph& graph_;
  std::vector<Lane> lanes_;  // those of the graph, and one for offers to everyone
  std::vector<std::size_t> spare_;
  std::vector<std::vector<Handover>> handovers_;  // by block
  std::vector<Node> last_reached_;                // by lane: settled up to this node
  std::vector<bool> settled_;                     // blocks that a settled taker could have had

  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> block_round_, taker_round_;
  std::vector<Node> offered_to_;    // by block: the taker that the search came from
  std::vector<Node> swapped_from_;  // by taker: the block that the search came from
  std::vector<Node> queue_;         // blocks
  std::vector<Node> takers_;
};

}  // namespace millrace
