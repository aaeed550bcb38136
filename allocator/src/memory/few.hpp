#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/** @brief Elements of a list, and the room for them. @tparam T  trivially copyable */
template <typename T>
struct alignas(T) FewMore {
  std::uint32_t size, room;

  [[nodiscard]] T* items() noexcept { return reinterpret_cast<T*>(this + 1); }
  static FewMore* make(std::uint32_t room) {
    return ::new (::operator new(sizeof(FewMore) + room * sizeof(T))) FewMore{0, room};
  }
};

/** @brief Nothing, one element, or the address of several. */
template <typename T>
class FewSlot {
 public:
  [[nodiscard]] bool has_more() const noexcept { return list_ > kOne; }
  [[nodiscard]] bool has_one() const noexcept { return list_ == kOne; }
  [[nodiscard]] bool empty() const noexcept { return list_ == kEmpty; }
  [[nodiscard]] FewMore<T>& more() const noexcept { return *reinterpret_cast<FewMore<T>*>(list_); }
  [[nodiscard]] const T* one() const noexcept {
    return std::launder(reinterpret_cast<const T*>(one_.data()));
  }
  void set_empty() noexcept { list_ = kEmpty; }
  void set_one(const T& value) noexcept {
    std::construct_at(reinterpret_cast<T*>(one_.data()), value);
    list_ = kOne;
  }
  void set_more(FewMore<T>& more) noexcept { list_ = reinterpret_cast<std::uintptr_t>(&more); }

 private:
  static constexpr std::uintptr_t kEmpty = 0, kOne = 1;

  alignas(T) std::array<std::byte, sizeof(T)> one_;  // a T if list_ is kOne
  std::uintptr_t list_ = kEmpty;                     // kEmpty, kOne, or an address
};

/** @brief Needs no memory beside the point: two ids of no stream, which no point may have, stand
 * for the other cases. */
template <>
class FewSlot<Point> {
 public:
  [[nodiscard]] bool has_more() const noexcept { return one_.stream == kMore; }
  [[nodiscard]] bool has_one() const noexcept { return !has_more() && !empty(); }
  [[nodiscard]] bool empty() const noexcept { return one_.stream == kEmpty; }
  [[nodiscard]] FewMore<Point>& more() const noexcept {
    return *reinterpret_cast<FewMore<Point>*>(one_.marker);
  }
  [[nodiscard]] const Point* one() const noexcept { return &one_; }
  void set_empty() noexcept { one_.stream = kEmpty; }
  void set_one(const Point& value) noexcept {
    assert(value.stream != kEmpty && value.stream != kMore);
    one_ = value;
  }
  void set_more(FewMore<Point>& more) noexcept {
    one_ = {kMore, reinterpret_cast<std::uintptr_t>(&more)};
  }

 private:
  static constexpr StreamId kEmpty{~std::uint32_t{0}, 0}, kMore{~std::uint32_t{0} - 1, 0};

  Point one_{kEmpty, 0};  // stream kMore: the marker is the address of several points
};

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

  [[nodiscard]] std::size_t size() const noexcept {
    return slot_.has_more() ? slot_.more().size : slot_.empty() ? 0 : 1;
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] const T* begin() const noexcept {
    return slot_.has_more() ? slot_.more().items() : slot_.one();
  }
  [[nodiscard]] const T* end() const noexcept {
    return slot_.has_more() ? slot_.more().items() + slot_.more().size
                            : slot_.one() + (slot_.empty() ? 0 : 1);
  }

  void clear() noexcept {
    if (slot_.has_more()) ::operator delete(&slot_.more());
    slot_.set_empty();
  }
  /** @brief Replaces all elements by `value`. Keeps memory for several, which is needed again. */
  [[gnu::always_inline]] void set(T value) noexcept {
    if (slot_.has_more()) {
      slot_.more().items()[0] = value;
      slot_.more().size = 1;
      return;
    }
    slot_.set_one(value);
  }
  void push_back(const T& value) {
    if (slot_.empty()) {
      slot_.set_one(value);
    } else if (slot_.has_more() && slot_.more().size < slot_.more().room) {
      std::construct_at(slot_.more().items() + slot_.more().size++, value);
    } else {
      insert(size(), value);
    }
  }
  /** @brief Removes the last element. The list must not be empty. */
  void pop_back() noexcept {
    if (slot_.has_more()) {
      --slot_.more().size;
    } else {
      slot_.set_empty();
    }
  }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    if (slot_.has_more()) {
      T* const items = slot_.more().items();
      T* const last = std::remove_if(items, items + slot_.more().size, predicate);
      slot_.more().size = static_cast<std::uint32_t>(last - items);
    } else if (slot_.has_one() && predicate(*slot_.one())) {
      slot_.set_empty();
    }
  }
  void assign(const Few& other) {
    if (other.empty()) return clear();
    assign_all(other);
  }

  void swap(Few& other) noexcept { std::swap(slot_, other.slot_); }

  friend bool operator==(const Few& a, const Few& b) { return std::ranges::equal(a, b); }

 protected:
  [[nodiscard]] T* items() noexcept { return const_cast<T*>(begin()); }
  /** @brief Inserts `value` before the element at `place`. */
  void insert(std::size_t place, const T& value) {
    if (!slot_.has_more() || slot_.more().size == slot_.more().room) grow();
    T* const items = slot_.more().items();
    std::copy_backward(items + place, items + slot_.more().size, items + slot_.more().size + 1);
    std::construct_at(items + place, value);
    ++slot_.more().size;
  }

 private:
  static constexpr std::uint32_t kFirstRoom = 3;

  void assign_all(const Few& other) {
    if (this == &other) return;
    if (other.size() == 1) return set(*other.begin());
    const std::uint32_t size = other.slot_.more().size;
    if (!slot_.has_more() || slot_.more().room < size) move_to(*FewMore<T>::make(size));
    std::copy_n(other.begin(), size, slot_.more().items());
    slot_.more().size = size;
  }
  void take(Few& other) noexcept {
    slot_ = other.slot_;
    other.slot_.set_empty();
  }
  void move_to(FewMore<T>& made) noexcept {
    clear();
    slot_.set_more(made);
  }
  void grow() {
    const auto size = static_cast<std::uint32_t>(this->size());
    FewMore<T>* const made = FewMore<T>::make(size < kFirstRoom ? kFirstRoom : size * 2);
    std::copy_n(begin(), size, made->items());
    made->size = size;
    move_to(*made);
  }

  FewSlot<T> slot_;
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
