// The kinds of arrays, the properties that they report, and the memory that they take.

#include "test/virtual_cuda/laws/arrays.hpp"

#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

struct Shape {
  cudaExtent extent;
  unsigned flags;
};

/// One array of each kind that CUDA documents.
const Shape kShapes[] = {
    {{7, 0, 0}, cudaArrayDefault},       {{7, 5, 0}, cudaArraySurfaceLoadStore},
    {{7, 5, 0}, cudaArrayTextureGather}, {{7, 5, 3}, cudaArrayDefault},
    {{7, 0, 3}, cudaArrayLayered},       {{7, 5, 3}, cudaArrayLayered | cudaArraySurfaceLoadStore},
    {{8, 8, 6}, cudaArrayCubemap},       {{8, 8, 12}, cudaArrayCubemap | cudaArrayLayered},
};

std::size_t attribute(cudaDeviceAttr which) {
  int value = 0;
  CUDA_OK(cudaDeviceGetAttribute(&value, which, 0));
  return static_cast<std::size_t>(value);
}

cudaError_t allocate(cudaExtent extent, unsigned flags = cudaArrayDefault,
                     cudaChannelFormatDesc format = unsigned_format()) {
  cudaArray_t array = nullptr;
  const cudaError_t error = cudaMalloc3DArray(&array, &format, extent, flags);
  static_cast<void>(cudaGetLastError());
  CHECK((array == nullptr) == (error != cudaSuccess));
  CUDA_OK(cudaFreeArray(array));
  return error;
}

bool same(const cudaChannelFormatDesc& one, const cudaChannelFormatDesc& other) {
  return one.x == other.x && one.y == other.y && one.z == other.z && one.w == other.w &&
         one.f == other.f;
}

}  // namespace

TEST_CASE("runtime and driver report the format, extents and flags of an array") {
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.extent.width, shape.extent.height, shape.extent.depth, shape.flags);
    const cudaChannelFormatDesc format = unsigned_format(16, 2);
    const Array array{shape.extent, format, shape.flags};
    cudaChannelFormatDesc found{};
    cudaExtent extent{};
    unsigned flags = ~0U;
    CUDA_OK(cudaArrayGetInfo(&found, &extent, &flags, array));
    CHECK(same(found, format));
    CHECK(extent.width == shape.extent.width);
    CHECK(extent.height == shape.extent.height);
    CHECK(extent.depth == shape.extent.depth);
    CHECK(flags == shape.flags);
    CUDA_OK(cudaArrayGetInfo(nullptr, nullptr, nullptr, array));
    found = {};
    CUDA_OK(cudaGetChannelDesc(&found, array));
    CHECK(same(found, format));

    CUDA_ARRAY3D_DESCRIPTOR all{};
    DRIVER_OK("cuArray3DGetDescriptor", &all,
              reinterpret_cast<CUarray>(static_cast<cudaArray_t>(array)));
    CHECK(all.Width == shape.extent.width);
    CHECK(all.Height == shape.extent.height);
    CHECK(all.Depth == shape.extent.depth);
    CHECK(all.Format == CU_AD_FORMAT_UNSIGNED_INT16);
    CHECK(all.NumChannels == 2);
    CHECK(all.Flags == shape.flags);
  }
}

TEST_CASE("an array of the driver is also an array of the runtime") {
  CUDA_OK(cudaSetDevice(0));
  CUDA_ARRAY_DESCRIPTOR rows{};
  rows.Width = 12;
  rows.Height = 3;
  rows.Format = CU_AD_FORMAT_FLOAT;
  rows.NumChannels = 4;
  CUarray made = nullptr;
  DRIVER_OK("cuArrayCreate", &made, static_cast<const CUDA_ARRAY_DESCRIPTOR*>(&rows));
  CUDA_ARRAY_DESCRIPTOR found{};
  DRIVER_OK("cuArrayGetDescriptor", &found, made);
  CHECK(found.Width == 12);
  CHECK(found.Height == 3);
  CHECK(found.Format == CU_AD_FORMAT_FLOAT);
  CHECK(found.NumChannels == 4);
  cudaChannelFormatDesc format{};
  CUDA_OK(cudaGetChannelDesc(&format, reinterpret_cast<cudaArray_t>(made)));
  CHECK(same(format, {32, 32, 32, 32, cudaChannelFormatKindFloat}));
  DRIVER_OK("cuArrayDestroy", made);
  rows.NumChannels = 3;
  CHECK(driver("cuArrayCreate", &made, static_cast<const CUDA_ARRAY_DESCRIPTOR*>(&rows)) ==
        kInvalidValue);
}

TEST_CASE("shapes that CUDA does not document are refused") {
  const Shape wrong[] = {
      {{0, 0, 0}, cudaArrayDefault},
      {{0, 4, 0}, cudaArrayDefault},
      {{4, 0, 4}, cudaArrayDefault},
      {{4, 0, 0}, cudaArrayLayered},
      {{4, 4, 0}, cudaArrayLayered},
      {{4, 4, 0}, cudaArrayCubemap},
      {{4, 5, 6}, cudaArrayCubemap},
      {{4, 4, 5}, cudaArrayCubemap},
      {{4, 4, 12}, cudaArrayCubemap},
      {{4, 4, 7}, cudaArrayCubemap | cudaArrayLayered},
      {{4, 0, 0}, cudaArrayTextureGather},
      {{4, 4, 4}, cudaArrayTextureGather},
      {{4, 4, 0}, 1U << 30},
  };
  for (const Shape& shape : wrong) {
    CAPTURE(shape.extent.width, shape.extent.height, shape.extent.depth, shape.flags);
    CHECK(allocate(shape.extent, shape.flags) == cudaErrorInvalidValue);
  }
}

TEST_CASE("an array is at most as large as the attributes of the GPU") {
  const std::size_t width = attribute(cudaDevAttrMaxTexture1DWidth);
  CHECK(allocate({width, 0, 0}) == cudaSuccess);
  CHECK(allocate({width + 1, 0, 0}) == cudaErrorInvalidValue);
  const std::size_t height = attribute(cudaDevAttrMaxTexture2DHeight);
  CHECK(allocate({1, height, 0}) == cudaSuccess);
  CHECK(allocate({1, height + 1, 0}) == cudaErrorInvalidValue);
  const std::size_t surface = attribute(cudaDevAttrMaxSurface1DWidth);
  CHECK(allocate({surface, 0, 0}, cudaArraySurfaceLoadStore) == cudaSuccess);
  CHECK(allocate({surface + 1, 0, 0}, cudaArraySurfaceLoadStore) == cudaErrorInvalidValue);
  const std::size_t layers = attribute(cudaDevAttrMaxTexture1DLayeredLayers);
  CHECK(allocate({1, 0, layers}, cudaArrayLayered) == cudaSuccess);
  CHECK(allocate({1, 0, layers + 1}, cudaArrayLayered) == cudaErrorInvalidValue);
  const std::size_t gather = attribute(cudaDevAttrMaxTexture2DGatherWidth);
  CHECK(allocate({gather, 1, 0}, cudaArrayTextureGather) == cudaSuccess);
  CHECK(allocate({gather + 1, 1, 0}, cudaArrayTextureGather) == cudaErrorInvalidValue);
  const std::size_t cube = attribute(cudaDevAttrMaxTextureCubemapLayeredLayers);
  CHECK(allocate({1, 1, cube}, cudaArrayCubemap | cudaArrayLayered) == cudaSuccess);
  CHECK(allocate({1, 1, cube + 6}, cudaArrayCubemap | cudaArrayLayered) == cudaErrorInvalidValue);
  const std::size_t deep = attribute(cudaDevAttrMaxTexture3DDepthAlt);
  CHECK(allocate({1, 1, deep}) == cudaSuccess);
  CHECK(allocate({1, 1, deep + 1}) == cudaErrorInvalidValue);
  CHECK(allocate({attribute(cudaDevAttrMaxTexture3DWidth), 1, deep}) == cudaErrorInvalidValue);
}

TEST_CASE("an array has one, two or four equal components") {
  for (const int bits : {8, 16, 32})
    for (const int channels : {1, 2, 4})
      CHECK(allocate({3, 0, 0}, 0, unsigned_format(bits, channels)) == cudaSuccess);
  CHECK(allocate({3, 0, 0}, 0, {16, 0, 0, 0, cudaChannelFormatKindFloat}) == cudaSuccess);
  const cudaChannelFormatDesc wrong[] = {
      {0, 0, 0, 0, cudaChannelFormatKindUnsigned},  {8, 8, 8, 0, cudaChannelFormatKindUnsigned},
      {8, 16, 0, 0, cudaChannelFormatKindUnsigned}, {64, 0, 0, 0, cudaChannelFormatKindUnsigned},
      {8, 0, 8, 0, cudaChannelFormatKindUnsigned},  {0, 8, 0, 0, cudaChannelFormatKindUnsigned},
      {8, 0, 0, 0, cudaChannelFormatKindFloat},     {32, 0, 0, 0, cudaChannelFormatKindNone},
  };
  for (const cudaChannelFormatDesc& format : wrong) {
    CAPTURE(format.x, format.y, format.z, format.w, static_cast<int>(format.f));
    CHECK(allocate({3, 0, 0}, 0, format) == cudaErrorInvalidChannelDescriptor);
  }
}

TEST_CASE("normalized formats of the runtime are the formats of the driver") {
  const cudaChannelFormatDesc format{8, 8, 0, 0, cudaChannelFormatKindUnsignedNormalized8X2};
  const Array array{{4, 4, 0}, format};
  CUDA_ARRAY_DESCRIPTOR found{};
  DRIVER_OK("cuArrayGetDescriptor", &found,
            reinterpret_cast<CUarray>(static_cast<cudaArray_t>(array)));
  CHECK(found.Format == CU_AD_FORMAT_UNORM_INT8X2);
  CHECK(found.NumChannels == 2);
  CHECK(allocate({3, 0, 0}, 0, {8, 8, 8, 8, cudaChannelFormatKindUnsignedNormalized8X2}) ==
        cudaErrorInvalidChannelDescriptor);
}

TEST_CASE("cudaMallocArray refuses layers and cubemaps") {
  const cudaChannelFormatDesc format = unsigned_format();
  cudaArray_t array = nullptr;
  for (const unsigned flags : {cudaArrayLayered, cudaArrayCubemap})
    CHECK(cudaMallocArray(&array, &format, 6, 6, flags) == cudaErrorInvalidValue);
  CHECK(cudaMallocArray(&array, nullptr, 6, 6, 0) == cudaErrorInvalidValue);
  CHECK(cudaMallocArray(nullptr, &format, 6, 6, 0) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMallocArray(&array, &format, 6, 0, 0));
  cudaExtent extent{};
  CUDA_OK(cudaArrayGetInfo(nullptr, &extent, nullptr, array));
  CHECK(extent.height == 0);
  CUDA_OK(cudaFreeArray(array));
}

TEST_CASE("kinds of arrays that the virtual GPU lacks are refused as not supported") {
  only_virtual("a GPU has them");
  CHECK(allocate({64, 64, 0}, cudaArraySparse) == cudaErrorNotSupported);
  CHECK(allocate({64, 64, 0}, cudaArrayDeferredMapping) == cudaErrorNotSupported);
  CHECK(allocate({64, 64, 0}, 0, {8, 8, 8, 0, cudaChannelFormatKindNV12}) == cudaErrorNotSupported);
  const Array array{{4, 4, 0}};
  cudaArray_t plane = nullptr;
  CHECK(cudaArrayGetPlane(&plane, array, 0) == cudaErrorInvalidValue);
  cudaArrayMemoryRequirements all{};
  CHECK(cudaArrayGetMemoryRequirements(&all, array, 0) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("an array takes memory of its GPU until it is freed") {
  CUDA_OK(cudaDeviceSynchronize());
  const std::size_t before = free_memory();
  {
    const Array array{{8192, 4096, 0}, unsigned_format(8, 4)};
    CHECK(same_memory(before - free_memory(), std::size_t{8192} * 4096 * 4));
  }
  CHECK(same_memory(before, free_memory()));
  CHECK(allocate({16384, 16384, 16384}, 0, unsigned_format(32, 4)) == cudaErrorMemoryAllocation);
  CHECK(same_memory(before, free_memory()));
}

TEST_CASE("an invalid handle of an array is refused, and null can be freed") {
  CUDA_OK(cudaFreeArray(nullptr));
  CUDA_OK(cudaFreeMipmappedArray(nullptr));
  only_virtual("a GPU's runtime reads what a handle points to");
  const DeviceBlock block{64};
  auto* const wrong = reinterpret_cast<cudaArray_t>(block.get());
  CHECK(cudaFreeArray(wrong) == cudaErrorInvalidValue);
  CHECK(cudaArrayGetInfo(nullptr, nullptr, nullptr, wrong) == cudaErrorInvalidValue);
  cudaChannelFormatDesc format = unsigned_format();
  CHECK(cudaGetChannelDesc(&format, wrong) == cudaErrorInvalidValue);
  CHECK(driver("cuArrayDestroy", reinterpret_cast<CUarray>(wrong)) == kInvalidHandle);
  cudaArray_t array = nullptr;
  CUDA_OK(cudaMallocArray(&array, &format, 6, 6, 0));
  CUDA_OK(cudaFreeArray(array));
  CHECK(cudaFreeArray(array) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("an allocation of an array during a capture invalidates the capture") {
  const Stream stream;
  const cudaChannelFormatDesc format = unsigned_format();
  cudaArray_t array = nullptr;
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocArray(&array, &format, 6, 6, 0) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  static_cast<void>(cudaGetLastError());
}
