#pragma once

#include <cstddef>
#include <vector>

#include "millrace/observe/conflict_graph.hpp"
#include "observe/packing/lasting_tree.hpp"
#include "observe/packing/steps.hpp"

namespace millrace::packing {

/**
 * Places nodes one after the other, each at the lowest offset at which it overlaps no placed node
 * that it conflicts with. If few placed nodes conflict, they are found by time. Otherwise all
 * placed nodes are visited in order of offset.
 */
class ConflictFit {
 public:
  using Node = ConflictGraph::Node;
  using Lane = ConflictGraph::Lane;

  explicit ConflictFit(const ConflictGraph& graph);

  /** @return the offset */
  std::size_t put(Node node, Steps& steps);

 private:
  struct Extent {
    std::size_t begin, end;
    Node node;
  };
  using Run = std::vector<Extent>;

  [[nodiscard]] bool find_few(Node node);
  [[nodiscard]] bool look_at(Node other, bool conflicts);
  [[nodiscard]] std::size_t gap_between_few(std::size_t bytes);
  [[nodiscard]] std::size_t gap_between_all(Node node, Steps& steps);
  [[nodiscard]] std::size_t lowest_gap(Node node, Steps& steps) const;
  [[nodiscard]] bool conflict(Node placed, Node node) const;
  void insert(Node node, std::size_t begin);

  const ConflictGraph& graph_;
  std::vector<std::size_t> offsets_;
  std::vector<bool> placed_;
  std::size_t placed_count_ = 0;
  std::vector<Run> runs_;  // by offset

  // One tree for each of the lanes with most nodes, which has how long nodes last for that lane.
  // The first tree has how long nodes last for any lane.
  std::vector<Lane> lane_of_tree_;
  std::vector<std::size_t> tree_of_;  // by lane
  std::vector<LastingTree> trees_;

  // The first node of each lane that may reuse the node that is being placed.
  std::vector<Node> early_;  // by lane; kNotEarly: no earlier than other lanes
  Node release_ = 0;
  std::vector<Extent> few_;
  std::size_t most_few_ = 0;
  std::size_t visited_ = 0;
};

}  // namespace millrace::packing
