#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/draw.hpp"

namespace millrace::model::host {

template <typename T>
void fill_uniform(std::span<T> out, std::uint64_t stream, T bound) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = draw_uniform(stream, i, bound);
}

}  // namespace millrace::model::host
