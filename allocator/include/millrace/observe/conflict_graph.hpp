#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"

namespace millrace {

/** @brief What may have a freed block. */
enum class ReuseRule {
  enqueued_work,  ///< work ordered after the free: the rule for device memory
  host_time,      ///< only what comes after it is known to be complete: memory the host writes
};

/** @brief Two blocks of a trace. */
struct BlockPair {
  std::size_t earlier = 0, later = 0;  ///< indices into AllocationTrace::blocks
};

/**
 * @brief Which allocations of a trace could not have shared memory, wherever an allocator put them.
 *
 * Block a *conflicts* with a later block b if a was live when b was allocated, or if b's user might
 * not legally have had a then: some point of a's free was neither in the user's own program order,
 * nor in what the user was ordered after, nor known to be complete. So for each stream a block
 * lasts until a definite place in the order of allocations, and that is all that is kept: a few
 * numbers a block, not the pairs.
 *
 * Nodes are the blocks that matter to a window, in order of allocation: allocated in it, live at
 * its beginning, or in conflict with one that was allocated in it.
 */
class ConflictGraph {
 public:
  using Node = std::uint32_t;
  using Lane = std::uint32_t;  ///< a stream that blocks were given out to

  struct Options {
    TraceWindow window{};
    ReuseRule rule = ReuseRule::enqueued_work;
    /** A block that was given memory of another one proves that they do not conflict: for
     * allocators that order streams unseen (the driver's pool). */
    bool reuse_proves_order = false;
  };

  /** @brief From this node on, blocks given out to `lane` could have had the block. */
  struct Release {
    Lane lane;
    Node from;
  };

  ConflictGraph(const AllocationTrace& trace, const Options& options);

  [[nodiscard]] Node size() const noexcept { return static_cast<Node>(blocks_.size()); }
  [[nodiscard]] const TracedBlock& block(Node node) const {
    return trace_->blocks()[blocks_[node]];
  }
  [[nodiscard]] std::size_t bytes(Node node) const { return block(node).bytes; }

  [[nodiscard]] Lane lane(Node node) const { return lanes_[node]; }
  /** @brief Nodes of a lane, ascending. */
  [[nodiscard]] std::span<const Node> nodes_of(Lane lane) const { return nodes_of_[lane]; }
  [[nodiscard]] Lane lane_count() const noexcept { return static_cast<Lane>(nodes_of_.size()); }

  /** @brief From this node on, every stream could have had the block; size() if none. */
  [[nodiscard]] Node released_from(Node node) const { return released_[node]; }
  /** @brief The lanes that could have had it earlier, ascending by lane. */
  [[nodiscard]] std::span<const Release> released_early(Node node) const;

  [[nodiscard]] bool conflict(Node a, Node b) const;

  /** @brief Why `later` could not have `earlier`: the first point that it is not ordered after. An
   * invalid stream if `earlier` was live. Only for nodes in conflict. */
  [[nodiscard]] Point missing_point(Node earlier, Node later) const;

  /** @brief From this node on, `lane` could have had the block. */
  [[nodiscard]] Node released_from(Node node, Lane lane) const;

 private:
  struct Selection;

  void number_nodes(const Selection& selection);
  void find_releases(const Selection& selection);
  void trust_reuse();

  const AllocationTrace* trace_;
  ReuseRule rule_;
  std::vector<std::uint32_t> blocks_;  ///< index into the trace's blocks, by node
  std::vector<Lane> lanes_;
  std::vector<std::vector<Node>> nodes_of_;
  std::vector<Node> released_;
  std::vector<std::vector<Release>> early_;
};

/**
 * @brief Pairs of blocks where the later one was given memory of the earlier one that its user
 * might not legally have had: the allocator (or who told it of edges) broke the one rule.
 */
[[nodiscard]] std::vector<BlockPair> find_illegal_reuse(const AllocationTrace& trace,
                                                        ReuseRule rule = ReuseRule::enqueued_work);

}  // namespace millrace
