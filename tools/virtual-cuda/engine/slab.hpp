#pragma once

#include <deque>
#include <vector>

namespace millrace::virtual_cuda {

/** @brief Objects behind handles. Memory is never given back, so a stale handle can be looked at.
 */
template <typename Object>
class Slab {
 public:
  [[nodiscard]] Object* take() {
    if (free_.empty()) return &all_.emplace_back();
    Object* const object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(Object* object) { free_.push_back(object); }

 private:
  std::deque<Object> all_;
  std::vector<Object*> free_;
};

}  // namespace millrace::virtual_cuda
