#include "engine/array_limits.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace millrace::virtual_cuda {
namespace {

constexpr int kWide = 131072;  // width in one and in two dimensions
constexpr int kHigh = 65536;
constexpr int kSide = 32768;  // side of layers, cubemaps, mipmaps and gather textures
constexpr int kLayers = 2048;
constexpr int kLayersOfCubemaps = 2046;  // a multiple of six
constexpr int kBox = 16384;

template <std::size_t kCount>
void set(int (&field)[kCount], const std::array<int, kCount>& values) {
  std::copy(values.begin(), values.end(), field);
}

}  // namespace

void set_array_limits(cudaDeviceProp& all) {
  all.maxTexture1D = kWide;
  all.maxTexture1DMipmap = kSide;
  set(all.maxTexture2D, {kWide, kHigh});
  set(all.maxTexture2DMipmap, {kSide, kSide});
  set(all.maxTexture2DGather, {kSide, kSide});
  set(all.maxTexture3D, {kBox, kBox, kBox});
  set(all.maxTexture3DAlt, {kBox / 2, kBox / 2, 2 * kBox});
  all.maxTextureCubemap = kSide;
  set(all.maxTexture1DLayered, {kSide, kLayers});
  set(all.maxTexture2DLayered, {kSide, kSide, kLayers});
  set(all.maxTextureCubemapLayered, {kSide, kLayersOfCubemaps});
  all.maxSurface1D = kSide;
  set(all.maxSurface2D, {kWide, kHigh});
  set(all.maxSurface3D, {kBox, kBox, kBox});
  set(all.maxSurface1DLayered, {kSide, kLayers});
  set(all.maxSurface2DLayered, {kSide, kSide, kLayers});
  all.maxSurfaceCubemap = kSide;
  set(all.maxSurfaceCubemapLayered, {kSide, kLayersOfCubemaps});
  // Textures of pitched memory, without an array.
  set(all.maxTexture2DLinear, {kWide, 65000, 2097120});
}

std::optional<int> array_limit(cudaDeviceAttr attribute, const cudaDeviceProp& all) {
  switch (attribute) {
    case cudaDevAttrMaxTexture1DWidth:
      return all.maxTexture1D;
    case cudaDevAttrMaxTexture1DLinearWidth:
      return 1 << 28;
    case cudaDevAttrMaxTexture1DMipmappedWidth:
      return all.maxTexture1DMipmap;
    case cudaDevAttrMaxTexture2DWidth:
    case cudaDevAttrMaxTexture2DHeight:
      return all.maxTexture2D[attribute - cudaDevAttrMaxTexture2DWidth];
    case cudaDevAttrMaxTexture2DLinearWidth:
    case cudaDevAttrMaxTexture2DLinearHeight:
    case cudaDevAttrMaxTexture2DLinearPitch:
      return all.maxTexture2DLinear[attribute - cudaDevAttrMaxTexture2DLinearWidth];
    case cudaDevAttrMaxTexture2DMipmappedWidth:
    case cudaDevAttrMaxTexture2DMipmappedHeight:
      return all.maxTexture2DMipmap[attribute - cudaDevAttrMaxTexture2DMipmappedWidth];
    case cudaDevAttrMaxTexture2DGatherWidth:
    case cudaDevAttrMaxTexture2DGatherHeight:
      return all.maxTexture2DGather[attribute - cudaDevAttrMaxTexture2DGatherWidth];
    case cudaDevAttrMaxTexture3DWidth:
    case cudaDevAttrMaxTexture3DHeight:
    case cudaDevAttrMaxTexture3DDepth:
      return all.maxTexture3D[attribute - cudaDevAttrMaxTexture3DWidth];
    case cudaDevAttrMaxTexture3DWidthAlt:
    case cudaDevAttrMaxTexture3DHeightAlt:
    case cudaDevAttrMaxTexture3DDepthAlt:
      return all.maxTexture3DAlt[attribute - cudaDevAttrMaxTexture3DWidthAlt];
    case cudaDevAttrMaxTextureCubemapWidth:
      return all.maxTextureCubemap;
    case cudaDevAttrMaxTexture1DLayeredWidth:
    case cudaDevAttrMaxTexture1DLayeredLayers:
      return all.maxTexture1DLayered[attribute - cudaDevAttrMaxTexture1DLayeredWidth];
    case cudaDevAttrMaxTexture2DLayeredWidth:
    case cudaDevAttrMaxTexture2DLayeredHeight:
    case cudaDevAttrMaxTexture2DLayeredLayers:
      return all.maxTexture2DLayered[attribute - cudaDevAttrMaxTexture2DLayeredWidth];
    case cudaDevAttrMaxTextureCubemapLayeredWidth:
    case cudaDevAttrMaxTextureCubemapLayeredLayers:
      return all.maxTextureCubemapLayered[attribute - cudaDevAttrMaxTextureCubemapLayeredWidth];
    case cudaDevAttrMaxSurface1DWidth:
      return all.maxSurface1D;
    case cudaDevAttrMaxSurface2DWidth:
    case cudaDevAttrMaxSurface2DHeight:
      return all.maxSurface2D[attribute - cudaDevAttrMaxSurface2DWidth];
    case cudaDevAttrMaxSurface3DWidth:
    case cudaDevAttrMaxSurface3DHeight:
    case cudaDevAttrMaxSurface3DDepth:
      return all.maxSurface3D[attribute - cudaDevAttrMaxSurface3DWidth];
    case cudaDevAttrMaxSurface1DLayeredWidth:
    case cudaDevAttrMaxSurface1DLayeredLayers:
      return all.maxSurface1DLayered[attribute - cudaDevAttrMaxSurface1DLayeredWidth];
    case cudaDevAttrMaxSurface2DLayeredWidth:
    case cudaDevAttrMaxSurface2DLayeredHeight:
    case cudaDevAttrMaxSurface2DLayeredLayers:
      return all.maxSurface2DLayered[attribute - cudaDevAttrMaxSurface2DLayeredWidth];
    case cudaDevAttrMaxSurfaceCubemapWidth:
      return all.maxSurfaceCubemap;
    case cudaDevAttrMaxSurfaceCubemapLayeredWidth:
    case cudaDevAttrMaxSurfaceCubemapLayeredLayers:
      return all.maxSurfaceCubemapLayered[attribute - cudaDevAttrMaxSurfaceCubemapLayeredWidth];
    default:
      return std::nullopt;
  }
}

}  // namespace millrace::virtual_cuda
