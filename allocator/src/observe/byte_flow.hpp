#pragma once

#include <compare>
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
 * from direct offers, then by making others swap. Of the direct offers a node takes the one that
 * other lanes can have last: with two lanes this leaves nothing to swap, and with more of them
 * little. What cannot be served has to be new memory; then all that the search has reached is
 * settled for good, and is never searched again.
 */
class ByteFlow {
 public:
  using Node = ConflictGraph::Node;

  /** Enough for 10^6 blocks of some streams; a fraction of a second to a few seconds. */
  static constexpr std::uint64_t kMostSteps = 500'000'000;

  /** @param most_steps  beyond these no further node is served: the cut is then that of the nodes
   * that were */
  explicit ByteFlow(const ConflictGraph& graph, std::uint64_t most_steps = kMostSteps);

  /** Offers and handovers looked at. */
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /** Nodes that were reached by an unserved one, while none that may follow them was. */
  [[nodiscard]] std::vector<Node> minimum_cut() const;

 private:
  struct Offer {
    Node from;   ///< taken by this node at the earliest
    Node block;  ///< whose bytes they are
  };
  struct Chosen {
    std::uint64_t rank;  ///< the higher, the later other lanes can have the block
    Node block;

    friend auto operator<=>(const Chosen&, const Chosen&) = default;
  };
  struct Handover {
    Node taker;
    std::size_t bytes;
  };
  struct Lane {
    std::vector<Offer> offers;  // by `from`
    std::size_t reached = 0;    // offers that this search has seen, settled ones included
    std::size_t settled = 0;
    std::size_t opened = 0;    // offers that are or were in `open`
    std::vector<Chosen> open;  // a heap; some may have no bytes to spare any more
    std::uint32_t round = 0;   // the search that `reached` is of

    [[nodiscard]] std::size_t open_to(Node taker) const;
  };

  void serve(Node node);
  void open_offers(Lane& lane, Node node);
  void take_offers(Lane& lane, Node node, std::size_t& missing);
  [[nodiscard]] std::uint64_t rank_of(const Offer& offer, const Lane& lane) const;
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

  std::uint64_t steps_ = 0;
  std::uint32_t round_ = 0;
  std::vector<std::uint32_t> block_round_, taker_round_;
  std::vector<Node> offered_to_;    // by block: the taker that the search came from
  std::vector<Node> swapped_from_;  // by taker: the block that the search came from
  std::vector<Node> queue_;         // blocks
  std::vector<Node> takers_;
  std::vector<Lane*> reached_lanes_;
};

}  // namespace millrace
