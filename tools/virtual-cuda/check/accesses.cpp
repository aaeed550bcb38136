#include "check/accesses.hpp"

#include "check/rules.hpp"

namespace millrace::virtual_cuda {
namespace {

/** Adds rows of `width` bytes as the smallest number of ranges. */
void add(std::vector<Access>& all, const Plane& plane, std::size_t width, std::size_t height,
         std::size_t depth, bool writes) {
  if (height == 1 || plane.pitch == width) {
    width *= height;
    height = 1;
  }
  if (height == 1 && (depth == 1 || plane.slice == width)) {
    width *= depth;
    depth = 1;
  }
  if (!holds(Rule::gaps_between_rows)) {
    width += (height - 1) * plane.pitch + (depth - 1) * plane.slice;
    height = depth = 1;
  }
  for (std::size_t z = 0; z < depth; ++z)
    for (std::size_t y = 0; y < height; ++y)
      all.push_back({plane.base + z * plane.slice + y * plane.pitch, width, writes});
}

}  // namespace

std::vector<Access> accesses_of(const CopyWork& copy) {
  std::vector<Access> all;
  // A staged source was already read at the call.
  if (copy.staged == nullptr) add(all, copy.from, copy.width, copy.height, copy.depth, false);
  add(all, copy.to, copy.width, copy.height, copy.depth, true);
  return all;
}

std::vector<Access> accesses_of(const FillWork& fill) {
  std::vector<Access> all;
  add(all, fill.to, fill.width * fill.element, fill.height, fill.depth, true);
  return all;
}

}  // namespace millrace::virtual_cuda
