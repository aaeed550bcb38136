#include "observe/byte_flow.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace millrace {

namespace {

constexpr ConflictGraph::Node kNone = std::numeric_limits<ConflictGraph::Node>::max();

}  // namespace

std::size_t ByteFlow::Lane::open_to(Node taker) const {
  const auto end = std::ranges::upper_bound(offers, taker, {}, &Offer::from);
  return static_cast<std::size_t>(end - offers.begin());
}

ByteFlow::ByteFlow(const ConflictGraph& graph, std::uint64_t most_steps)
    : graph_(graph),
      lanes_(graph.lane_count() + 1),
      spare_(graph.size()),
      handovers_(graph.size()),
      last_reached_(graph.lane_count(), kNone),
      settled_(graph.size()),
      block_round_(graph.size()),
      taker_round_(graph.size()),
      offered_to_(graph.size()),
      swapped_from_(graph.size()) {
  for (Node block = 0; block < graph.size(); ++block) {
    spare_[block] = graph.bytes(block);
    for (const auto& [lane, from] : graph.released_early(block)) {
      lanes_[lane].offers.push_back({from, block});
    }
    everyone().offers.push_back({graph.released_from(block), block});
  }
  for (Lane& lane : lanes_) {
    std::ranges::stable_sort(lane.offers, {}, &Offer::from);
  }
  for (Node node = 0; node < graph.size() && steps_ <= most_steps; ++node) serve(node);
}

void ByteFlow::serve(Node node) {
  std::size_t missing = graph_.bytes(node);
  take_offers(lane_of(node), node, missing);
  take_offers(everyone(), node, missing);
  while (missing > 0) {
    if (!search(node)) return settle();
    missing -= swap(node, missing);
  }
}

/** Returns the sum, over all other lanes, of the first node that may take the block, but at least
 * this offer's. */
std::uint64_t ByteFlow::rank_of(const Offer& offer, const Lane& lane) const {
  const std::uint64_t all = graph_.released_from(offer.block);
  std::uint64_t rank = all * graph_.lane_count();
  for (const auto& [other, from] : graph_.released_early(offer.block)) {
    if (&lanes_[other] != &lane) rank -= all - std::max(from, offer.from);
  }
  return rank;
}

/** Nodes are served in order, so an open offer stays open. */
void ByteFlow::open_offers(Lane& lane, Node node) {
  for (; lane.opened < lane.offers.size() && lane.offers[lane.opened].from <= node; ++lane.opened) {
    const Offer& offer = lane.offers[lane.opened];
    if (spare_[offer.block] == 0) continue;
    lane.open.push_back({rank_of(offer, lane), offer.block});
    std::ranges::push_heap(lane.open);
  }
}

void ByteFlow::take_offers(Lane& lane, Node node, std::size_t& missing) {
  open_offers(lane, node);
  while (missing > 0 && !lane.open.empty()) {
    ++steps_;
    const Node block = lane.open.front().block;
    const std::size_t bytes = std::min(missing, spare_[block]);
    if (bytes > 0)
      handovers_[block].push_back({node, bytes});  // the block's first one to this node
    spare_[block] -= bytes;
    missing -= bytes;
    if (spare_[block] > 0) continue;
    std::ranges::pop_heap(lane.open);
    lane.open.pop_back();
  }
}

bool ByteFlow::search(Node node) {
  ++round_;
  queue_.clear();
  takers_.clear();
  reached_lanes_.clear();
  swapped_from_[node] = kNone;
  if (reach(node)) return true;
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    const Node block = queue_[next];
    steps_ += handovers_[block].size();
    for (const auto& [taker, bytes] : handovers_[block]) {
      if (taker_round_[taker] == round_) continue;
      swapped_from_[taker] = block;
      if (reach(taker)) return true;
    }
  }
  return false;
}

bool ByteFlow::reach(Node taker) {
  taker_round_[taker] = round_;
  takers_.push_back(taker);
  return reach_offers(lane_of(taker), taker) || reach_offers(everyone(), taker);
}

bool ByteFlow::reach_offers(Lane& lane, Node taker) {
  if (std::exchange(lane.round, round_) != round_) {
    lane.reached = lane.settled;
    reached_lanes_.push_back(&lane);
  }
  const std::size_t open = lane.open_to(taker);
  steps_ += open - std::min(open, lane.reached);
  for (std::size_t count = open; count > lane.reached; --count) {
    const Node block = lane.offers[count - 1].block;
    if (block_round_[block] == round_) continue;
    block_round_[block] = round_;
    offered_to_[block] = taker;
    queue_.push_back(block);
    if (spare_[block] > 0) return true;
  }
  lane.reached = std::max(lane.reached, open);
  return false;
}

std::size_t ByteFlow::swap(Node node, std::size_t missing) {
  const Node source = queue_.back();
  std::size_t bytes = std::min(missing, spare_[source]);
  for (Node taker = offered_to_[source]; taker != node;) {
    const Node block = swapped_from_[taker];
    bytes = std::min(bytes, handed(block, taker));
    taker = offered_to_[block];
  }
  spare_[source] -= bytes;
  for (Node block = source;;) {
    const Node taker = offered_to_[block];
    hand_over(block, taker, bytes);
    if (taker == node) return bytes;
    block = swapped_from_[taker];
    withdraw(block, taker, bytes);
  }
}

void ByteFlow::settle() {
  for (Lane* lane : reached_lanes_) lane->settled = lane->reached;
  for (const Node block : queue_) settled_[block] = true;
  for (const Node taker : takers_) {
    Node& last = last_reached_[graph_.lane(taker)];
    if (last == kNone || last < taker) last = taker;
  }
}

void ByteFlow::hand_over(Node block, Node taker, std::size_t bytes) {
  const auto known = std::ranges::find(handovers_[block], taker, &Handover::taker);
  if (known != handovers_[block].end()) {
    known->bytes += bytes;
  } else {
    handovers_[block].push_back({taker, bytes});
  }
}

void ByteFlow::withdraw(Node block, Node taker, std::size_t bytes) {
  const auto known = std::ranges::find(handovers_[block], taker, &Handover::taker);
  known->bytes -= bytes;
  if (known->bytes == 0) handovers_[block].erase(known);
}

std::size_t ByteFlow::handed(Node block, Node taker) const {
  return std::ranges::find(handovers_[block], taker, &Handover::taker)->bytes;
}

std::vector<ByteFlow::Node> ByteFlow::minimum_cut() const {
  std::vector<Node> cut;
  for (Node node = 0; node < graph_.size(); ++node) {
    const Node last = last_reached_[graph_.lane(node)];
    if (last != kNone && node <= last && !settled_[node]) cut.push_back(node);
  }
  return cut;
}

}  // namespace millrace
