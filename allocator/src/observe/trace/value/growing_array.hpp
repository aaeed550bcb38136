#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>

namespace millrace::trace {

/**
 * @brief An array of plain items. Unlike a vector it grows by realloc, so that a large one is
 * extended where it is (with glibc) and costs what was written to it, and not twice that.
 */
template <typename Item>
class GrowingArray {
  static_assert(std::is_trivially_copyable_v<Item>);

 public:
  GrowingArray() = default;
  GrowingArray(GrowingArray&& other) noexcept
      : items_{std::exchange(other.items_, nullptr)},
        size_{std::exchange(other.size_, 0)},
        capacity_{std::exchange(other.capacity_, 0)} {}
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;
  ~GrowingArray() { std::free(items_); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept { return size_ * sizeof(Item); }
  [[nodiscard]] Item* data() noexcept { return items_; }
  [[nodiscard]] const Item* data() const noexcept { return items_; }
  [[nodiscard]] Item& operator[](std::size_t index) noexcept { return items_[index]; }
  [[nodiscard]] const Item& operator[](std::size_t index) const noexcept { return items_[index]; }
  [[nodiscard]] Item& back() noexcept { return items_[size_ - 1]; }

  void push_back(const Item& item) {
    if (size_ == capacity_) reserve(capacity_ + capacity_ / 2 + 16);
    items_[size_++] = item;
  }
  void pop_back() noexcept { --size_; }

  /** @brief New items are not written, and so cost nothing yet. */
  void resize(std::size_t size) {
    if (size > capacity_) reserve(size + size / 2);
    size_ = size;
  }

  /** @brief Gives back the memory after the last item. */
  void shrink() {
    if (size_ != 0) set_capacity(size_);
  }

 private:
  void reserve(std::size_t capacity) {
    if (capacity > PTRDIFF_MAX / sizeof(Item)) throw std::bad_alloc{};
    set_capacity(capacity);
  }

  void set_capacity(std::size_t capacity) {
    void* const moved = std::realloc(static_cast<void*>(items_), capacity * sizeof(Item));
    if (moved == nullptr) throw std::bad_alloc{};
    items_ = static_cast<Item*>(moved);
    capacity_ = capacity;
  }

  Item* items_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace millrace::trace
