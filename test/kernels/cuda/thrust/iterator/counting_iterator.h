#pragma once

namespace thrust {

template <typename T>
class counting_iterator {
 public:
  explicit counting_iterator(T value) : value_(value) {}
  T operator*() const { return value_; }
  counting_iterator& operator++() {
    ++value_;
    return *this;
  }

 private:
  T value_;
};

}  // namespace thrust
