#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/streamer/step_batch.hpp"
#include "record/row_key.hpp"

namespace millrace::ship {

/**
 * @brief Finds the index of a row in a batch. Takes 6 to 12 bytes a row; keys are read from the
 * batch.
 */
class RowIndex {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  /**
   * @brief Returns the row's index in the batch, or kNone for a new row, which the caller must then
   * append to the batch.
   */
  std::size_t find_or_add(const RowKey& key, const StepBatch& batch) {
    if (3 * (size_ + 1) > 2 * slots_.size()) grow(batch);
    std::size_t slot = first_slot(key);
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      const std::size_t at = slots_[slot] - 1;
      if (key_of(batch.row(at)) == key) return at;
    }
    slots_[slot] = static_cast<std::uint32_t>(++size_);
    return kNone;
  }
  /** @brief Removes the row that `find_or_add` added last, if the caller did not append it. */
  void forget_last(const RowKey& key) {
    std::size_t slot = first_slot(key);
    while (slots_[slot] != size_) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = 0;  // no key was added later, so none was placed after this slot
    --size_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  [[nodiscard]] std::size_t first_slot(const RowKey& key) const noexcept {
    const int bits = std::countr_zero(slots_.size());
    return RowKeyHash{}(key) >> (64 - bits);
  }
  void grow(const StepBatch& batch) {
    std::vector<std::uint32_t>(std::max<std::size_t>(64, 2 * slots_.size())).swap(slots_);
    for (std::size_t at = 0; at < size_; ++at) {
      std::size_t slot = first_slot(key_of(batch.row(at)));
      while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::uint32_t>(at + 1);
    }
  }

  std::vector<std::uint32_t> slots_;  ///< index in the batch + 1; 0: free
  std::size_t size_ = 0;
};

}  // namespace millrace::ship
