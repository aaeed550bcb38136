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
 * @brief A list that nearly always has one element or none, which then takes no memory elsewhere.
 *
 * @tparam T  trivially copyable
 */
template <typename T>
class Few {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Few() = default;
  Few(Few&& other) noexcept : one_(other.one_), list_(std::exchange(other.list_, kEmpty)) {}
  Few& operator=(Few&& other) noexcept {
    if (this == &other) return *this;
    clear();
    one_ = other.one_;
    list_ = std::exchange(other.list_, kEmpty);
    return *this;
  }
  ~Few() { clear(); }

  [[nodiscard]] std::size_t size() const noexcept { return list_ <= kOne ? list_ : more().size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] const T* begin() const noexcept { return list_ <= kOne ? one() : more().data(); }
  [[nodiscard]] const T* end() const noexcept { return begin() + size(); }

  void clear() noexcept {
    if (list_ > kOne) delete &more();
    list_ = kEmpty;
  }
  void push_back(const T& value) {
    if (list_ != kEmpty) return list().push_back(value);
    std::construct_at(reinterpret_cast<T*>(one_.data()), value);
    list_ = kOne;
  }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    if (list_ > kOne) {
      std::erase_if(more(), predicate);
    } else if (list_ == kOne && predicate(*one())) {
      list_ = kEmpty;
    }
  }
  void assign(const Few& other) {
    clear();
    for (const T& value : other) push_back(value);
  }

  friend bool operator==(const Few& a, const Few& b) { return std::ranges::equal(a, b); }

 protected:
  std::vector<T>& list() {
    if (list_ <= kOne) {
      auto more = std::make_unique<std::vector<T>>(begin(), end());
      list_ = reinterpret_cast<std::uintptr_t>(more.release());
    }
    return more();
  }
  [[nodiscard]] T* only() noexcept { return list_ == kOne ? const_cast<T*>(one()) : nullptr; }

 private:
  static constexpr std::uintptr_t kEmpty = 0, kOne = 1;

  [[nodiscard]] const T* one() const noexcept {
    return std::launder(reinterpret_cast<const T*>(one_.data()));
  }
  [[nodiscard]] std::vector<T>& more() const noexcept {
    return *reinterpret_cast<std::vector<T>*>(list_);
  }

  alignas(T) std::array<std::byte, sizeof(T)> one_{};  // a T, if list_ is kOne
  std::uintptr_t list_ = kEmpty;                       // or kOne, or where all of them are
};

/** @brief What has to come before the next use of some memory: one point a stream, by stream. */
class PointSet : public Few<Point> {
 public:
  PointSet() = default;
  explicit PointSet(Point point) { push_back(point); }

  /** @brief Of its stream the later of the two. */
  void join(Point point);
  void join(const PointSet& other) {
    for (const Point point : other) join(point);
  }

  /** @brief The marker of its point of `stream`; 0: it has none. */
  [[nodiscard]] Marker on(StreamId stream) const noexcept {
    for (const Point& point : *this) {
      if (point.stream == stream) return point.marker;
    }
    return 0;
  }
};

}  // namespace millrace
