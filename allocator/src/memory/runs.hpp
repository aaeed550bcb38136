#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "memory/block.hpp"
#include "memory/size_bin.hpp"

namespace millrace {

/**
 * @brief Two or more free neighbors that are separate blocks, because they belong to different
 *        lanes, or because a block's own lane would have to wait for it.
 */
struct Run {
  Block* first = nullptr;
  std::size_t count = 0, bytes = 0;
  std::size_t at_least = 0;                  // no block of the run is smaller
  Run *previous = nullptr, *next = nullptr;  // in the bin
};

/**
 * @brief Runs of free neighbors by size. One search shows whether merging could serve a request.
 *        Decides nothing, takes no lock. Blocks that are unlisted (BlockWaits) are in no run.
 *
 * A run has at most `kMost` blocks; more free neighbors form several runs in a row. So each change
 * visits at most that many blocks, and nearly always one or two. A bin has the runs of one 32nd of
 * a power of two, newest first. Two bitmaps find the next bin that has runs.
 */
class Runs {
 public:
  static constexpr std::size_t kMost = 64;

  /**
   * @brief Notes that the block became free and is listed.
   * @return an upper bound on the bytes of the block and its listed free neighbors
   */
  std::size_t freed(Block* block);
  void claimed(Block* block);  ///< notes that the listed block is no longer free

  static constexpr std::size_t kMostTooSmall = 64;

  /**
   * @brief Calls `visit` with runs of at least `bytes`, bin by bin from the smallest sizes on,
   * until it returns false.
   *
   * In the bin of `bytes`, it ends after `kMostTooSmall` runs that are smaller.
   */
  void visit(bool small, std::size_t bytes, const std::function<bool(const Run&)>& visit) const;
  /** @brief Calls `visit` with all runs, bin by bin from the largest sizes on, until it returns
   * false. */
  void visit_largest(bool small, const std::function<bool(const Run&)>& visit) const;

 private:
  struct Row {
    std::array<Run*, SizeBin::kColumns> bins{};
    std::uint32_t in_use = 0;
  };
  struct Pool {
    std::array<Row, 64> rows;  // by power of two
    std::uint64_t in_use = 0;
    bool parted = false;  // neighbors were ever too many for one run, so `freed` has no exact sum
  };
  /** @brief Consecutive blocks: those of a run, or a single one. */
  struct Extent {
    std::size_t count = 0, bytes = 0, at_least = 0;
    /** @brief Returns the extent of the blocks of both. */
    [[nodiscard]] Extent operator+(const Extent& more) const noexcept {
      return {count + more.count, bytes + more.bytes, std::min(at_least, more.at_least)};
    }
  };
  [[nodiscard]] Extent extent_of(const Block* head) const;
  void make(Block* first, const Extent& blocks);
  void remove(Block* first);

  std::array<Pool, 2> pools_;
  std::deque<Run> runs_;              // all runs that were ever made; run n is at n - 1
  std::vector<std::uint32_t> spare_;  // numbers of the unused ones
};

}  // namespace millrace
