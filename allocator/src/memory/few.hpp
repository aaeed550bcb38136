#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/** @brief A list that nearly always has one element or none, which then takes no memory elsewhere.
 */
template <typename T>
class Few {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return more_ ? more_->size() : one_ ? 1 : 0; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] const T* begin() const noexcept {
    if (more_) return more_->data();
    return one_ ? &*one_ : nullptr;
  }
  [[nodiscard]] const T* end() const noexcept { return begin() + size(); }

  void clear() noexcept {
    more_.reset();
    one_.reset();
  }
  void push_back(const T& value) {
    if (!more_ && !one_) {
      one_ = value;
      return;
    }
    list().push_back(value);
  }
  template <typename Predicate>
  void erase_if(Predicate predicate) {
    if (more_) {
      std::erase_if(*more_, predicate);
    } else if (one_ && predicate(*one_)) {
      one_.reset();
    }
  }
  void assign(const Few& other) {
    clear();
    for (const T& value : other) push_back(value);
  }

  friend bool operator==(const Few& a, const Few& b) { return std::ranges::equal(a, b); }

 protected:
  std::vector<T>& list() {
    if (!more_) {
      more_ = std::make_unique<std::vector<T>>();
      if (one_) more_->push_back(*one_);
      one_.reset();
    }
    return *more_;
  }
  [[nodiscard]] T* only() noexcept { return one_ ? &*one_ : nullptr; }

 private:
  std::optional<T> one_;
  std::unique_ptr<std::vector<T>> more_;
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
};

}  // namespace millrace
