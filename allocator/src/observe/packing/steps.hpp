#pragma once

#include <algorithm>
#include <cstdint>

namespace millrace::packing {

/** A budget of work, counted in visits of blocks or sections, so it is the same on every machine.
 */
class Steps {
 public:
  explicit Steps(std::uint64_t limit) : left_(limit) {}

  void take(std::uint64_t count) { left_ -= std::min(left_, count); }
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }
  [[nodiscard]] bool spent() const noexcept { return left_ == 0; }

  /** Returns a part of the remaining budget, to be settled with `take(part - rest.left())`. */
  [[nodiscard]] Steps part(std::uint64_t divisor) const { return Steps{left_ / divisor}; }

 private:
  std::uint64_t left_;
};

}  // namespace millrace::packing
