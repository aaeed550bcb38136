#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/**
 * A maximum flow of bytes from each block to later blocks that may reuse them.
 *
 * A block offers its bytes to each lane from a certain node on. So the offers to a node are a
 * prefix of its lane's offers and a prefix of the offers to every lane. Nodes are served in order:
 * first from direct offers, then by letting other nodes swap theirs. Of the direct offers, a node
 * takes the one that becomes available to other lanes last. With two lanes no swaps remain then,
 * and with more lanes few do. Bytes that cannot be served must be new memory. Everything that the
 * search has reached is then settled, and later searches skip it.
 */
class ByteFlow {
 public:
  using Node = ConflictGraph::Node;

  /** Enough for 10^6 blocks of some streams; a fraction of a second to a few seconds. */
  static constexpr std::uint64_t kMostSteps = 500'000'000;

  /** @param most_steps  after this many steps no further node is served; the cut is then that of
   * the served nodes */
  explicit ByteFlow(const ConflictGraph& graph, std::uint64_t most_steps = kMostSteps);

  /** Number of offers and handovers visited. */
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /** Returns the nodes that an unserved node reached, and whose possible successors none reached.
   */
  [[nodiscard]] std::vector<Node> minimum_cut() const;

 private:
  struct Offer {
    Node from;   ///< first node that may take the offer
    Node block;  ///< the block that offers its bytes
  };
  struct Chosen {
    std::uint64_t rank;  ///< higher if the block becomes available to other lanes later
    Node block;

    friend auto operator<=>(const Chosen&, const Chosen&) = default;
  };
  struct Handover {
    Node taker;
    std::size_t bytes;
  };
  struct Lane {
    std::vector<Offer> offers;  // ordered by `from`
    std::size_t reached = 0;    // offers that this search has visited, including settled ones
    std::size_t settled = 0;
    std::size_t opened = 0;    // offers that are or were in `open`
    std::vector<Chosen> open;  // a heap; some entries may have no bytes left
    std::uint32_t round = 0;   // the search in which `reached` was set

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
  std::vector<Lane> lanes_;  // the lanes of the graph, and one for offers to every lane
  std::vector<std::size_t> spare_;
  std::vector<std::vector<Handover>> handovers_;  // by block
  std::vector<Node> last_reached_;                // by lane: last settled node
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
