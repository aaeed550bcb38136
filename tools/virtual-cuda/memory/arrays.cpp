#include "memory/arrays.hpp"

#include <algorithm>
#include <bit>

#include "millrace/round_up.hpp"

namespace millrace::virtual_cuda {
namespace {

bool within(const cudaExtent& extent, std::size_t width, std::size_t height, std::size_t depth) {
  return extent.width <= width && extent.height <= height && extent.depth <= depth;
}

template <typename... Limits>
bool fits(const cudaExtent& extent, Limits... limits) {
  return within(extent, static_cast<std::size_t>(limits)...);
}

bool fits_cube(const cudaExtent& extent, const cudaDeviceProp& limits, bool layered) {
  const auto& cubes = limits.maxTextureCubemapLayered;
  return layered ? fits(extent, cubes[0], cubes[0], cubes[1])
                 : fits(extent, limits.maxTextureCubemap, limits.maxTextureCubemap, 6);
}

bool fits_texture(const ArrayShape& shape, const cudaDeviceProp& limits, bool mipmapped) {
  const cudaExtent& extent = shape.extent;
  const bool layered = (shape.flags & cudaArrayLayered) != 0;
  if ((shape.flags & cudaArrayCubemap) != 0) return fits_cube(extent, limits, layered);
  if (layered) {
    const auto& rows = limits.maxTexture1DLayered;
    const auto& planes = limits.maxTexture2DLayered;
    return extent.height == 0 ? fits(extent, rows[0], 0, rows[1])
                              : fits(extent, planes[0], planes[1], planes[2]);
  }
  if (extent.depth != 0) {
    const auto& box = limits.maxTexture3D;
    const auto& other = limits.maxTexture3DAlt;
    return fits(extent, box[0], box[1], box[2]) || fits(extent, other[0], other[1], other[2]);
  }
  if (extent.height == 0)
    return fits(extent, mipmapped ? limits.maxTexture1DMipmap : limits.maxTexture1D, 0, 0);
  const auto& plane = mipmapped ? limits.maxTexture2DMipmap : limits.maxTexture2D;
  return fits(extent, plane[0], plane[1], 0);
}

bool fits_surface(const ArrayShape& shape, const cudaDeviceProp& limits) {
  const cudaExtent& extent = shape.extent;
  const bool layered = (shape.flags & cudaArrayLayered) != 0;
  if ((shape.flags & cudaArrayCubemap) != 0) {
    const auto& cubes = limits.maxSurfaceCubemapLayered;
    return layered ? fits(extent, cubes[0], cubes[0], cubes[1])
                   : fits(extent, limits.maxSurfaceCubemap, limits.maxSurfaceCubemap, 6);
  }
  if (layered) {
    const auto& rows = limits.maxSurface1DLayered;
    const auto& planes = limits.maxSurface2DLayered;
    return extent.height == 0 ? fits(extent, rows[0], 0, rows[1])
                              : fits(extent, planes[0], planes[1], planes[2]);
  }
  const auto& box = limits.maxSurface3D;
  if (extent.depth != 0) return fits(extent, box[0], box[1], box[2]);
  return extent.height == 0 ? fits(extent, limits.maxSurface1D, 0, 0)
                            : fits(extent, limits.maxSurface2D[0], limits.maxSurface2D[1], 0);
}

// Whether the flags permit an array of these dimensions.
bool has_legal_dimensions(const ArrayShape& shape) {
  const cudaExtent& extent = shape.extent;
  const bool layered = (shape.flags & cudaArrayLayered) != 0;
  if (extent.width == 0) return false;
  if ((shape.flags & cudaArrayCubemap) != 0) {
    if (extent.width != extent.height || extent.depth == 0) return false;
    return layered ? extent.depth % 6 == 0 : extent.depth == 6;
  }
  return layered ? extent.depth != 0 : extent.depth == 0 || extent.height != 0;
}

bool fits_gather(const ArrayShape& shape, const cudaDeviceProp& limits) {
  const bool plane = shape.extent.height != 0 && shape.extent.depth == 0;
  return plane && fits(shape.extent, limits.maxTexture2DGather[0], limits.maxTexture2DGather[1], 0);
}

std::size_t halved(std::size_t extent, unsigned times) {
  return extent == 0 ? 0 : std::max<std::size_t>(1, extent >> times);
}

}  // namespace

ArrayShape ArrayShape::level(unsigned level) const noexcept {
  constexpr unsigned kLayers = cudaArrayLayered | cudaArrayCubemap;
  ArrayShape made = *this;
  made.extent.width = halved(extent.width, level);
  made.extent.height = halved(extent.height, level);
  if ((flags & kLayers) == 0) made.extent.depth = halved(extent.depth, level);
  return made;
}

unsigned ArrayShape::most_levels() const noexcept {
  return static_cast<unsigned>(
      std::bit_width(std::max({extent.width, extent.height, extent.depth})));
}

bool is_legal(const ArrayShape& shape, const cudaDeviceProp& limits, bool mipmapped) {
  if (!has_legal_dimensions(shape) || !fits_texture(shape, limits, mipmapped)) return false;
  if ((shape.flags & cudaArraySurfaceLoadStore) != 0 && !fits_surface(shape, limits)) return false;
  return (shape.flags & cudaArrayTextureGather) == 0 || fits_gather(shape, limits);
}

cudaArray_t Arrays::make(unsigned gpu, const ArrayShape& shape) {
  auto array = std::make_unique<cudaArray>();
  array->shape = shape;
  array->gpu = gpu;
  array->address = static_cast<std::byte*>(memory_.take(gpu, shape.bytes()));
  if (array->address == nullptr) return nullptr;
  cudaArray_t const handle = array.get();
  arrays_.emplace(handle, std::move(array));
  return handle;
}

cudaMipmappedArray_t Arrays::make(unsigned gpu, const ArrayShape& shape, unsigned levels) {
  auto array = std::make_unique<cudaMipmappedArray>();
  array->shape = shape;
  array->gpu = gpu;
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (unsigned level = 0; level < levels; ++level) {
    offsets.push_back(bytes);
    bytes += round_up(shape.level(level).bytes(), Memory::kAlignment);
  }
  array->address = static_cast<std::byte*>(memory_.take(gpu, bytes));
  if (array->address == nullptr) return nullptr;
  for (unsigned level = 0; level < levels; ++level) {
    const auto& made = array->levels.emplace_back(std::make_unique<cudaArray>());
    *made = {shape.level(level), gpu, array->address + offsets[level], true};
    levels_.emplace(made.get(), made.get());
  }
  cudaMipmappedArray_t const handle = array.get();
  mipmapped_.emplace(handle, std::move(array));
  return handle;
}

const cudaArray* Arrays::find(cudaArray_const_t handle) const {
  if (const auto entry = arrays_.find(handle); entry != arrays_.end()) return entry->second.get();
  const auto level = levels_.find(handle);
  return level == levels_.end() ? nullptr : level->second;
}

const cudaMipmappedArray* Arrays::find(cudaMipmappedArray_const_t handle) const {
  const auto entry = mipmapped_.find(handle);
  return entry == mipmapped_.end() ? nullptr : entry->second.get();
}

void Arrays::destroy(const cudaArray& array) {
  static_cast<void>(memory_.give(array.address));
  arrays_.erase(&array);
}

void Arrays::destroy(const cudaMipmappedArray& array) {
  static_cast<void>(memory_.give(array.address));
  for (const auto& level : array.levels) levels_.erase(level.get());
  mipmapped_.erase(&array);
}

}  // namespace millrace::virtual_cuda
