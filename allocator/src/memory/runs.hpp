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

/** @brief Two or more free neighbors that are not one block: they wait for different things. */
struct Run {
  Block* first = nullptr;
  std::size_t count = 0, bytes = 0;
  std::size_t at_least = 0;                  // none of its blocks is smaller
  Run *previous = nullptr, *next = nullptr;  // of about the same size
};

/**
 * @brief Runs of free neighbors by size, so that one look says whether merging could serve a
 *        request. Decides nothing, locks nothing. Unlisted blocks are in no run.
 *
 * A run has at most `kMost` blocks; where more are free, several runs follow each other. So each
 * change looks at no more blocks than that, and nearly always at one or two. A bin holds the runs
 * of one 32nd of a power of two, newest first; two bitmaps find the next bin that has any.
 */
class Runs {
 public:
  static constexpr std::size_t kMost = 64;

  /**
   * @brief It is free now, and was not.
   * @return bytes of it and its free neighbors, or more
   */
  std::size_t freed(Block* block);
  void claimed(Block* block);  ///< it is not free any more

  static constexpr std::size_t kMostTooSmall = 64;

  /**
   * @brief Visits runs of at least `bytes`, nearly the smallest first, until `visit` says false.
   *
   * In the bin of `bytes` it passes over no more than `kMostTooSmall` runs that are smaller.
   */
  void visit(bool small, std::size_t bytes, const std::function<bool(const Run&)>& visit) const;
  /** @brief Visits all runs, nearly the largest first, until `visit` says false. */
  void visit_largest(bool small, const std::function<bool(const Run&)>& visit) const;

 private:
  struct Row {
    std::array<Run*, SizeBin::kColumns> bins{};
    std::uint32_t in_use = 0;
  };
  struct Pool {
    std::array<Row, 64> rows;  // by power of two
    std::uint64_t in_use = 0;
    bool parted = false;  // more free neighbors than a run has were ever there
  };
  /** @brief Blocks from a first one on: those of a run, or one alone. */
  struct Extent {
    std::size_t count = 0, bytes = 0, at_least = 0;
    /** @brief With the neighbors of `more`. */
    [[nodiscard]] Extent operator+(const Extent& more) const noexcept {
      return {count + more.count, bytes + more.bytes, std::min(at_least, more.at_least)};
    }
  };
  [[nodiscard]] static Extent extent_of(const Block* head);
  void make(Block* first, const Extent& blocks);
  void remove(Block* first);

  std::array<Pool, 2> pools_;
  std::deque<Run> runs_;     // all that were ever made
  std::vector<Run*> spare_;  // of them those that are not in use
};

}  // namespace millrace
