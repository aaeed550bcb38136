#pragma once

#include <unordered_map>
#include <vector>

#include "memory/few.hpp"

namespace millrace {

class PrivatePool;

/**
 * @brief The general memory that captured graphs use.
 *
 * The user may free such a block at any time. It is then kept until no graph that uses it will run
 * again, and its next use comes after their last launches as well. Not thread-safe.
 */
class GraphUses {
 public:
  struct Freed {
    void* address;
    PointSet points;  ///< what must come before its next use
  };

  [[nodiscard]] bool empty() const noexcept { return uses_.empty(); }

  /** @brief Graphs of `pool` use the block. */
  void add(void* address, const PrivatePool& pool);

  /**
   * @brief The user frees the block.
   * @param points  what must come before its next use; if the block is not kept, joined by the
   *                launches of former graphs
   * @return whether it is kept, with these points: `end` returns it
   */
  [[nodiscard]] bool keep(void* address, PointSet& points);
  /** @brief Whether the user has freed the block, and it is kept. */
  [[nodiscard]] bool keeps(const void* address) const;
  /** @brief Whether graphs use the block, or have used it. */
  [[nodiscard]] bool knows(const void* address) const { return uses_.contains(address); }

  /**
   * @brief No graph of `pool` will run again.
   * @param after  their launches: all that still uses what they used
   * @return the blocks that were kept for these graphs alone
   * @throws std::bad_alloc; it may be called again then
   */
  [[nodiscard]] std::vector<Freed> end(const PrivatePool& pool, const PointSet& after);

 private:
  struct Use {
    Few<const PrivatePool*> pools;  // whose graphs use it
    bool freed = false;
    PointSet after;  // the launches of former graphs; once freed, the user's points too
  };

  std::unordered_map<const void*, Use> uses_;
  std::unordered_map<const PrivatePool*, std::vector<void*>> used_by_;
};

}  // namespace millrace
