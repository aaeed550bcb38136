#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace millrace {

/**
 * @brief Host memory for items. An item stays where it is, and is never given back.
 *
 * Items are allocated in rows. Each row is twice as long as the one before it, up to a limit: few
 * items take little memory, and many items take few allocations.
 */
template <typename T, std::size_t kFirstRow, std::size_t kLongestRow>
class Rows {
 public:
  /** @brief Returns an item that was not returned before, value-initialized. */
  [[nodiscard]] T* take() {
    if (used_ == in_last_) {
      const std::size_t count = std::clamp(in_last_ * 2, kFirstRow, kLongestRow);
      rows_.push_back(std::make_unique<T[]>(count));
      allocated_ += count;
      in_last_ = count;
      used_ = 0;
    }
    return &rows_.back()[used_++];
  }
  /** @brief Returns the number of items that there is memory for. */
  [[nodiscard]] std::size_t allocated() const noexcept { return allocated_; }
  /** @brief Returns the number of items that `take` returned. */
  [[nodiscard]] std::size_t taken() const noexcept { return allocated_ - in_last_ + used_; }

 private:
  std::vector<std::unique_ptr<T[]>> rows_;
  std::size_t allocated_ = 0, in_last_ = 0, used_ = 0;  // items: of all rows, of the last row
};

}  // namespace millrace
