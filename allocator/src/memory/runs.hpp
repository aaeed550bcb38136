#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "memory/block.hpp"

namespace millrace {

/** @brief Two or more free neighbours that are not one block: they wait for different things. */
struct Run {
  Block* first = nullptr;
  std::size_t count = 0, bytes = 0;
  Run *previous = nullptr, *next = nullptr;  // of about the same size
};

/**
 * @brief Runs of free neighbours by size, so that one look says whether merging could serve a
 *        request. Decides nothing, locks nothing. Unlisted blocks are in no run.
 *
 * A run has at most `kMost` blocks; where more are free, several runs follow each other. So each
 * change looks at no more blocks than that, and nearly always at one or two.
 */
class Runs {
 public:
  static constexpr std::size_t kMost = 64;

  void freed(Block* block);    ///< it is free now, and was not
  void claimed(Block* block);  ///< it is not free any more

  /** @brief Visits runs of at least `bytes`, nearly the smallest first, until `visit` says false.
   */
  void visit(bool small, std::size_t bytes, const std::function<bool(const Run&)>& visit) const;

 private:
  static constexpr unsigned kBins = 64;
  using Bins = std::array<Run*, kBins>;

  struct Pool {
    Bins bins{};
    std::uint64_t in_use = 0;
  };

  static unsigned bin_of(std::size_t bytes) noexcept {
    return static_cast<unsigned>(std::bit_width(bytes)) - 1;
  }
  void make(Block* first, std::size_t count, std::size_t bytes);
  void remove(Block* first);

  std::array<Pool, 2> pools_;
  std::deque<Run> runs_;     // all that were ever made
  std::vector<Run*> spare_;  // of them those that are not in use
};

}  // namespace millrace
