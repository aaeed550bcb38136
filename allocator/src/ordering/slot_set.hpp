#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ordering/steps.hpp"

namespace millrace::ordering {

/**
 * A set of slots, visited in ascending order. Adding and removing are O(1). A visit is O(1) for
 * each step over 64 empty words.
 */
class SlotSet {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void insert(std::uint32_t slot) {
    const std::size_t word = slot / 64;
    if (word >= words_.size()) grow(word);
    const std::uint64_t bits = words_[word];
    if ((bits & bit(slot)) != 0) return;
    ++size_;
    words_[word] = bits | bit(slot);
    if (bits == 0) summary_[word / 64] |= bit(word);
  }

  void erase(std::uint32_t slot) {
    const std::size_t word = slot / 64;
    if (word >= words_.size() || (words_[word] & bit(slot)) == 0) return;
    --size_;
    words_[word] &= ~bit(slot);
    if (words_[word] == 0) summary_[word / 64] &= ~bit(word);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /** Returns the first slot of the set at or after `slot`; kNone if no slot follows. */
  [[nodiscard]] std::uint32_t next(std::uint32_t slot) const noexcept {
    std::size_t word = slot / 64;
    if (word >= words_.size()) return kNone;
    count_steps(1);
    if (const std::uint64_t rest = words_[word] & ~(bit(slot) - 1)) return in_word(word, rest);
    if (++word >= words_.size()) return kNone;
    std::size_t group = word / 64;
    std::uint64_t rest = summary_[group] & ~(bit(word) - 1);
    while (rest == 0) {
      count_steps(1);
      if (++group >= summary_.size()) return kNone;
      rest = summary_[group];
    }
    word = group * 64 + static_cast<std::size_t>(std::countr_zero(rest));
    return in_word(word, words_[word]);
  }

 private:
  [[gnu::noinline]] void grow(std::size_t word) {
    // In this order: if host memory runs out between the two, each word still has its summary.
    summary_.resize(word / 64 + 1);
    words_.resize(word + 1);
  }
  static constexpr std::uint64_t bit(std::size_t i) noexcept {
    return std::uint64_t{1} << (i % 64);
  }
  static std::uint32_t in_word(std::size_t word, std::uint64_t bits) noexcept {
    return static_cast<std::uint32_t>(word * 64) +
           static_cast<std::uint32_t>(std::countr_zero(bits));
  }

  std::vector<std::uint64_t> words_;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> summary_;  // bits of the words that are not 0
};

}  // namespace millrace::ordering
