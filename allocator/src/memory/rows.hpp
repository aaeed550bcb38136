#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace millrace {

/**
 * @brief Host memory for items. An item stays where it is, and is never given back.
 *
 * Items are allocated in rows. Each row is twice as long as the one before it, up to a limit: few
 * items take little memory, and many items take few allocations. An item is made when it is taken,
 * so its memory is in the processor's cache when the caller writes to it.
 */
template <typename T, std::size_t kFirstRow, std::size_t kLongestRow>
class Rows {
 public:
  Rows() = default;
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() {
    for (const Row& row : rows_) {
      if (row.items == nullptr) continue;
      std::destroy_n(row.items, row.items == last_ ? used_ : row.count);
      std::allocator<T>{}.deallocate(row.items, row.count);
    }
  }

  /** @brief Returns a new item, value-initialized. */
  [[nodiscard]] T* take() {
    if (used_ == in_last_) add_row();
    T* const made = std::construct_at(last_ + used_);
    ++used_;
    return made;
  }
  /** @brief Returns the number of items that there is memory for. */
  [[nodiscard]] std::size_t allocated() const noexcept { return allocated_; }
  /** @brief Returns the number of items that `take` returned. */
  [[nodiscard]] std::size_t taken() const noexcept { return allocated_ - in_last_ + used_; }

 private:
  struct Row {
    T* items = nullptr;
    std::size_t count = 0;
  };

  void add_row() {
    const std::size_t count = std::clamp(in_last_ * 2, kFirstRow, kLongestRow);
    // If the second allocation fails, the next call uses the entry that the first one added.
    if (rows_.empty() || rows_.back().items != nullptr) rows_.emplace_back();
    last_ = std::allocator<T>{}.allocate(count);
    rows_.back() = {last_, count};
    allocated_ += count;
    in_last_ = count;
    used_ = 0;
  }

  std::vector<Row> rows_;
  T* last_ = nullptr;                                   // the items of the last row
  std::size_t allocated_ = 0, in_last_ = 0, used_ = 0;  // items: of all rows, of the last row
};

}  // namespace millrace
