#pragma once

#include <compare>
#include <cstdint>
#include <set>

namespace millrace::trace {

/**
 * @brief How large the unsplit rest of a large block must be, from what PyTorch did not choose.
 *
 * Between a block and the next one in use lies a gap: first the block's rest, then a free block of
 * which only the end is known. Whenever PyTorch took another free block although that one, with no
 * rest before it, would have fitted better, there must have been a rest that makes it too small.
 */
class RestClues {
 public:
  /** @brief A choice made while there was a gap. */
  struct Choice {
    std::uint64_t gap_end = 0;
    std::uint64_t asked = 0;         ///< rounded
    std::uint64_t chosen_bytes = 0;  ///< of the free block taken; UINT64_MAX if a new segment was
    std::uint64_t chosen_address = 0;

    friend auto operator<=>(const Choice&, const Choice&) = default;
  };

  /** @param gap_begin  the end of the block without a rest
   *  @return true if it is kept, because it says something new */
  bool add(std::uint64_t gap_begin, const Choice& choice);

  /** @brief The least rest that explains every choice; 0 if none does. */
  [[nodiscard]] std::uint64_t least(std::uint64_t gap_begin, std::uint64_t most) const;

 private:
  std::set<Choice> choices_;  // those that some rest would contradict; a loop repeats its choices
};

}  // namespace millrace::trace
