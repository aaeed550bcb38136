#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/**
 * @brief A list that nearly always has at most one element, which then needs no other memory.
 *
 * @tparam T  trivially copyable
 */
template <typename T>
class Few {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));

 public:
  Few() = default;
  Few(Few&& other) noexcept { take(other); }
  Few& operator=(Few&& other) noexcept {
    if (this == &other) return *this;
    clear();
    take(other);
    return *this;
  }
  ~Few() { clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return list_ <= kOne ? list_ : more().size; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] const T* begin() const noexcept { return list_ <= kOne ? one() : more().items(); }
  [[nodiscard]] const T* end() const noexcept { return begin() + size(); }

  void clear() noexcept {
    if (list_ > kOne) ::operator delete(&more());
    list_ = kEmpty;
  }
  /** @brief Replaces all elements by `value`. Keeps memory for several, which is needed again. */
  [[gnu::always_inline]] void set(T value) noexcept {
    if (list_ > kOne) {
      more().items()[0] = value;
      more().size = 1;
      return;
    }
    std::construct_at(reinterpret_cast<T*>(one_.data()), value);
    list_ = kOne;
  }
  void push_back(const T& value) {
    if (list_ == kEmpty) {
      std::construct_at(reinterpret_cast<T*>(one_.data()), value);
      list_ = kOne;
    } else if (list_ != kOne && more().size < more().room) {
      std::construct_at(more().items() + more().size++, value);
    } else {
      insert(size(), value);
    }
  }
  /** @brief Removes the last element. The list must not be empty. */
  void pop_back() noexcept {
    if (list_ > kOne) {
      --more().size;
    } else {
      list_ = kEmpty;
    }
  }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    if (list_ > kOne) {
      T* const last = std::remove_if(more().items(), more().items() + more().size, predicate);
      more().size = static_cast<std::uint32_t>(last - more().items());
    } else if (list_ == kOne && predicate(*one())) {
      list_ = kEmpty;
    }
  }
  void assign(const Few& other) {
    if (this == &other) return;
    if (other.empty()) {
      clear();
    } else if (other.size() == 1) {
      set(*other.begin());
    } else {
      const std::uint32_t size = other.more().size;
      if (list_ <= kOne || more().room < size) move_to(make(size));
      std::copy_n(other.begin(), size, more().items());
      more().size = size;
    }
  }

  void swap(Few& other) noexcept {
    if (list_ == kOne || other.list_ == kOne) std::swap(one_, other.one_);
    std::swap(list_, other.list_);
  }

  friend bool operator==(const Few& a, const Few& b) { return std::ranges::equal(a, b); }

 protected:
  [[nodiscard]] T* items() noexcept { return const_cast<T*>(begin()); }
  /** @brief Inserts `value` before the element at `place`. */
  void insert(std::size_t place, const T& value) {
    if (list_ <= kOne || more().size == more().room) grow();
    T* const items = more().items();
    std::copy_backward(items + place, items + more().size, items + more().size + 1);
    std::construct_at(items + place, value);
    ++more().size;
  }

 private:
  static constexpr std::uintptr_t kEmpty = 0, kOne = 1;
  static constexpr std::uint32_t kFirstRoom = 3;

  struct alignas(T) More {
    std::uint32_t size, room;
    [[nodiscard]] T* items() noexcept { return reinterpret_cast<T*>(this + 1); }
  };

  // Takes over the elements of `other`. Copies `one_` only if it is in use: its bytes were often
  // just written in other widths, and the processor would have to wait for them.
  void take(Few& other) noexcept {
    if (other.list_ == kOne) one_ = other.one_;
    list_ = std::exchange(other.list_, kEmpty);
  }
  [[nodiscard]] const T* one() const noexcept {
    return std::launder(reinterpret_cast<const T*>(one_.data()));
  }
  [[nodiscard]] More& more() const noexcept { return *reinterpret_cast<More*>(list_); }

  static More* make(std::uint32_t room) {
    return ::new (::operator new(sizeof(More) + room * sizeof(T))) More{0, room};
  }
  void move_to(More* made) noexcept {
    clear();
    list_ = reinterpret_cast<std::uintptr_t>(made);
  }
  void grow() {
    const auto size = static_cast<std::uint32_t>(this->size());
    More* const made = make(size < kFirstRoom ? kFirstRoom : size * 2);
    std::copy_n(begin(), size, made->items());
    made->size = size;
    move_to(made);
  }

  alignas(T) std::array<std::byte, sizeof(T)> one_{};  // a T if list_ is kOne
  std::uintptr_t list_ = kEmpty;                       // kEmpty, kOne, or the address of a More
};

/** @brief The points that must come before the next use of some memory: at most one for each
 * stream, sorted by stream. */
class PointSet : public Few<Point> {
 public:
  PointSet() = default;
  explicit PointSet(Point point) { push_back(point); }

  /** @brief Adds a point. If the set has a point of the same stream, keeps the later one. */
  void join(Point point) {
    if (empty() || (end() - 1)->stream < point.stream) return push_back(point);
    join_among(point);
  }
  void join(const PointSet& other) {
    for (const Point point : other) join(point);
  }

  /** @brief Adds many points, of n streams in O(n log n). Sorts `points`. */
  void join_all(std::vector<Point>& points);

  /** @brief Returns the marker of the point of `stream`, or 0 if the set has none. */
  [[nodiscard]] Marker on(StreamId stream) const noexcept {
    for (const Point& point : *this) {
      if (point.stream == stream) return point.marker;
    }
    return 0;
  }

 private:
  void join_among(Point point);
};

}  // namespace millrace
