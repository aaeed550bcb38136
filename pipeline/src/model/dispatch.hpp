#pragma once

#include <cstdint>

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"

namespace millrace::model {

/** @brief Calls `function` with a value of the integer type. */
template <typename Function>
void with_type(IndexType type, Function&& function) {
  if (type == IndexType::int32) {
    function(std::int32_t{});
  } else {
    function(std::int64_t{});
  }
}

template <typename Function>
void with_types(IndexType first, IndexType second, Function&& function) {
  with_type(first, [&](auto a) { with_type(second, [&](auto b) { function(a, b); }); });
}

}  // namespace millrace::model
