#pragma once

#include <deque>
#include <vector>

namespace millrace::virtual_cuda {

/** @brief Storage of objects with handles. It is never freed, so a stale handle can be read. */
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
