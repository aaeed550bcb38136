#include "engine/work.hpp"

#include <cstring>

#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {
namespace {

template <typename Row>
void for_each_row(std::size_t height, std::size_t depth, Row row) {
  for (std::size_t z = 0; z < depth; ++z)
    for (std::size_t y = 0; y < height; ++y) row(y, z);
}

std::byte* at(const Memory& memory, const Plane& plane, std::size_t y, std::size_t z) {
  return memory.data(plane.base) + y * plane.pitch + z * plane.slice;
}

template <typename Element>
void fill_row(std::byte* row, Element value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) std::memcpy(row + i * sizeof value, &value, sizeof value);
}

}  // namespace

void perform(const CopyWork& copy) {
  const Memory& memory = runtime().memory;
  for_each_row(copy.height, copy.depth, [&](std::size_t y, std::size_t z) {
    std::memmove(at(memory, copy.to, y, z), at(memory, copy.from, y, z), copy.width);
  });
}

void perform(const FillWork& fill) {
  const Memory& memory = runtime().memory;
  for_each_row(fill.height, fill.depth, [&](std::size_t y, std::size_t z) {
    std::byte* const row = at(memory, fill.to, y, z);
    if (fill.element == 1) {
      std::memset(row, static_cast<int>(fill.value), fill.width);
    } else if (fill.element == 2) {
      fill_row(row, static_cast<std::uint16_t>(fill.value), fill.width);
    } else {
      fill_row(row, fill.value, fill.width);
    }
  });
}

}  // namespace millrace::virtual_cuda
