#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "millrace/streamer/step_batch.hpp"
#include "record/row_key.hpp"

namespace millrace::ship {

/** @brief Where in a batch each row is: 4 to 8 bytes a row, keys are read from the batch. */
class RowIndex {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  /** @brief The row's place in the batch, or kNone: then it is to be added next, at the end. */
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
  /** @brief What `find_or_add` added last is not in the batch. */
  void forget_last(const RowKey& key) {
    std::size_t slot = first_slot(key);
    while (slots_[slot] != size_) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = 0;  // the last to be added: no other has passed over it
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

  std::vector<std::uint32_t> slots_;  ///< the place, from 1; 0: free
  std::size_t size_ = 0;
};

}  // namespace millrace::ship
