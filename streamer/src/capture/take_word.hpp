#pragma once

#include <cstdint>

#include "capture/layout.hpp"

namespace millrace::capture {

/** @brief Returns the index of the lowest bit that is set. `word` must not be 0. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline unsigned lowest_bit(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  return static_cast<unsigned>(__ffs(static_cast<int>(word))) - 1;
#else
  return static_cast<unsigned>(__builtin_ctz(word));
#endif
}

/**
 * @brief Writes the rows of a word's bits to their places in a list with room for `most` bits.
 * @param there   the word's bits that may be taken
 * @param word    index of the word
 * @param before  number of bits in the words before it
 * @return the bits that were taken: the lowest ones, as many as had room
 */
template <typename Key>
MILLRACE_HOST_DEVICE std::uint32_t take_word(Key* rows, std::uint32_t there, std::uint64_t word,
                                             std::uint64_t before, std::uint64_t most,
                                             const BitShape& shape) {
  std::uint32_t left = there;
  for (std::uint64_t at = before; left != 0 && at < most; ++at, left &= left - 1) {
    const std::uint64_t first = (word * 32 + lowest_bit(left)) << shape.shift;
    const std::uint64_t behind = first + (std::uint64_t{1} << shape.shift);
    const std::uint64_t end = behind < shape.rows ? behind : shape.rows;
    Key* const to = rows + (at << shape.shift);
    for (std::uint64_t row = first; row < end; ++row) to[row - first] = static_cast<Key>(row);
  }
  return there & ~left;
}

}  // namespace millrace::capture
