#pragma once

#include <unordered_map>
#include <vector>

#include "memory/few.hpp"

namespace millrace {

class PrivatePool;

/**
 * @brief Records the general memory that captured graphs use.
 *
 * The user may free such a block at any time. The block is then kept until no graph that uses it
 * will run again, and its next use comes after their last launches as well. Not thread-safe.
 */
class GraphUses {
 public:
  struct Freed {
    void* address;
    PointSet points;  ///< what must come before its next use
  };

  [[nodiscard]] bool empty() const noexcept { return uses_.empty(); }

  /** @brief Notes that graphs of `pool` use the block. */
  void add(void* address, const PrivatePool& pool);

  /**
   * @brief Keeps a block that the user frees, if graphs use it.
   * @param points  what must come before its next use. Gets the launches of former graphs too, if
   *                the block is not kept.
   * @return whether the block is kept; `end` then returns it with these points
   */
  [[nodiscard]] bool keep(void* address, PointSet& points);
  /** @brief Returns whether the user has freed the block, and it is kept. */
  [[nodiscard]] bool keeps(const void* address) const;
  /** @brief Returns whether graphs use the block, or have used it. */
  [[nodiscard]] bool knows(const void* address) const { return uses_.contains(address); }

  /**
   * @brief Ends the uses by graphs of `pool`, which will not run again.
   * @param after  launches of these graphs, which must come before the next use of the blocks
   * @return the blocks that were kept for these graphs alone
   * @throws std::bad_alloc; the call may then be repeated
   */
  [[nodiscard]] std::vector<Freed> end(const PrivatePool& pool, const PointSet& after);

 private:
  struct Use {
    Few<const PrivatePool*> pools;  // pools whose graphs use the block
    bool freed = false;
    PointSet after;  // the launches of former graphs; once freed, the user's points too
  };

  std::unordered_map<const void*, Use> uses_;
  std::unordered_map<const PrivatePool*, std::vector<void*>> used_by_;
};

}  // namespace millrace
