#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"

namespace millrace {

/** @brief When a freed block may be used again. */
enum class ReuseRule {
  enqueued_work,  ///< by work that is ordered after the free: the rule for device memory
  host_time,      ///< after the free is known to be complete: the rule for memory the host writes
};

/** @brief Two blocks of a trace. */
struct BlockPair {
  std::size_t earlier = 0, later = 0;  ///< indices into AllocationTrace::blocks
};

/**
 * @brief The allocations of a trace that no allocator could have placed in the same memory.
 *
 * Block a *conflicts* with a later block b if a was live when b was allocated, or if the one rule
 * did not allow b's user to have a then: some point of a's free was not in the user's own program
 * order, not in what the user was ordered after, and not known to be complete. For each stream, a
 * block is therefore occupied until a definite place in the order of allocations. Only these places
 * are stored, a few numbers per block, and not the pairs.
 *
 * The nodes are the blocks that matter to a window, in order of allocation: blocks allocated in the
 * window, blocks live at its beginning, and blocks that conflict with one allocated in it.
 */
class ConflictGraph {
 public:
  using Node = std::uint32_t;
  using Lane = std::uint32_t;  ///< a stream that blocks were given out to

  /** @brief Which blocks of a trace are compared, and when two of them conflict. */
  struct Options {
    TraceWindow window{};
    ReuseRule rule = ReuseRule::enqueued_work;
    /// If a block was given memory of another block, treat that as proof that they do not conflict.
    /// For allocators that order streams in ways not visible in the trace (the driver's pool).
    bool reuse_proves_order = false;
  };

  /** @brief From node `from` on, blocks allocated for `lane` could have used the memory. */
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
  [[nodiscard]] std::span<const TracedMove> moves() const { return trace_->moves(); }

  [[nodiscard]] Lane lane(Node node) const { return lanes_[node]; }
  /** @brief The nodes of a lane, in ascending order. */
  [[nodiscard]] std::span<const Node> nodes_of(Lane lane) const { return nodes_of_[lane]; }
  [[nodiscard]] Lane lane_count() const noexcept { return static_cast<Lane>(nodes_of_.size()); }

  /** @brief The node from which on every stream could have used the memory; size() if none. */
  [[nodiscard]] Node released_from(Node node) const { return released_[node]; }
  /** @brief The lanes that could have used the memory earlier, in ascending order of lanes. */
  [[nodiscard]] std::span<const Release> released_early(Node node) const;

  [[nodiscard]] bool conflict(Node a, Node b) const;

  /**
   * @brief Why `later` could not use the memory of `earlier`: the first point of the free that it
   *        is not ordered after.
   *
   * Only for nodes in conflict.
   * @return a point with an invalid stream if `earlier` was live
   */
  [[nodiscard]] Point missing_point(Node earlier, Node later) const;

  /** @brief The node from which on `lane` could have used the memory. */
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
 * @brief Finds violations of the one rule: pairs of blocks in which the later block was given
 *        memory of the earlier one too early.
 *
 * The cause is the allocator, or a program that reported an order that does not exist.
 */
[[nodiscard]] std::vector<BlockPair> find_illegal_reuse(const AllocationTrace& trace,
                                                        ReuseRule rule = ReuseRule::enqueued_work);

}  // namespace millrace
