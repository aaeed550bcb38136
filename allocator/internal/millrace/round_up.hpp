#pragma once

#include <cstddef>

namespace millrace {

/// The least multiple of `multiple` that is not below `bytes`. Their sum must not exceed a
/// std::size_t.
constexpr std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace millrace
