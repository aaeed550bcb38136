#include "test/virtual_cuda/laws/arrays.hpp"
#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

class Mipmapped {
 public:
  Mipmapped(cudaExtent extent, unsigned levels, unsigned flags = cudaArrayDefault) {
    const cudaChannelFormatDesc format = unsigned_format();
    CUDA_OK(cudaMallocMipmappedArray(&array_, &format, extent, levels, flags));
  }
  ~Mipmapped() { cudaFreeMipmappedArray(array_); }
  Mipmapped(const Mipmapped&) = delete;
  Mipmapped& operator=(const Mipmapped&) = delete;
  [[nodiscard]] cudaMipmappedArray_t get() const { return array_; }

  [[nodiscard]] cudaArray_t level(unsigned number) const {
    cudaArray_t found = nullptr;
    CUDA_OK(cudaGetMipmappedArrayLevel(&found, array_, number));
    return found;
  }
  [[nodiscard]] cudaExtent extent_of(unsigned number) const {
    cudaExtent found{};
    CUDA_OK(cudaArrayGetInfo(nullptr, &found, nullptr, level(number)));
    return found;
  }
  /// The number of existing levels.
  [[nodiscard]] unsigned levels() const {
    unsigned count = 0;
    cudaArray_t found = nullptr;
    while (cudaGetMipmappedArrayLevel(&found, array_, count) == cudaSuccess) ++count;
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    return count;
  }

 private:
  cudaMipmappedArray_t array_ = nullptr;
};

}  // namespace

TEST_CASE("each level of a mipmapped array is half as large as the previous one, at least 1") {
  const Mipmapped array{{20, 5, 0}, 5};
  CHECK(array.levels() == 5);
  const cudaExtent expected[] = {{20, 5, 0}, {10, 2, 0}, {5, 1, 0}, {2, 1, 0}, {1, 1, 0}};
  for (unsigned number = 0; number < 5; ++number) {
    const cudaExtent found = array.extent_of(number);
    CHECK(found.width == expected[number].width);
    CHECK(found.height == expected[number].height);
    CHECK(found.depth == 0);
  }
}

TEST_CASE("levels halve the depth and keep the number of layers") {
  CHECK(Mipmapped({16, 16, 4}, 3, cudaArrayLayered).extent_of(2).depth == 4);
  CHECK(Mipmapped({16, 16, 6}, 3, cudaArrayCubemap).extent_of(2).depth == 6);
  CHECK(Mipmapped({16, 16, 4}, 3).extent_of(2).depth == 1);
}

TEST_CASE("the number of levels is limited to the level with one element") {
  CHECK(Mipmapped({20, 5, 0}, 99).levels() == 5);
  CHECK(Mipmapped({1, 0, 0}, 3).levels() == 1);
  CHECK(Mipmapped({20, 5, 0}, 0).levels() == 1);
}

TEST_CASE("levels are separate arrays in the memory of the mipmapped array") {
  CUDA_OK(cudaDeviceSynchronize());
  const std::size_t before = free_memory();
  {
    const Mipmapped array{{4096, 4096, 0}, 2};
    CHECK(before - free_memory() >= std::size_t{4096} * 4096 * 5 / 4);
    std::vector<unsigned char> seen(16);
    for (const unsigned number : {0U, 1U}) {
      const std::vector<unsigned char> source = all(16, static_cast<unsigned char>(7 + number));
      CUDA_OK(cudaMemcpy2DToArray(array.level(number), 0, 0, source.data(), 4, 4, 4,
                                  cudaMemcpyHostToDevice));
    }
    for (const unsigned number : {0U, 1U}) {
      CUDA_OK(cudaMemcpy2DFromArray(seen.data(), 4, array.level(number), 0, 0, 4, 4,
                                    cudaMemcpyDeviceToHost));
      CHECK(seen == all(16, static_cast<unsigned char>(7 + number)));
    }
    CHECK(cudaMemcpy2DFromArray(seen.data(), 4, array.level(1), 2046, 0, 4, 4,
                                cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    static_cast<void>(cudaGetLastError());
  }
  CHECK(same_memory(before, free_memory()));
}

TEST_CASE("a level cannot be freed on its own, and a null array has no levels") {
  cudaArray_t level = nullptr;
  CHECK(cudaGetMipmappedArrayLevel(&level, nullptr, 0) == cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
  only_virtual("it is not documented what a GPU's runtime does");
  const Mipmapped array{{16, 0, 0}, 2};
  CHECK(cudaFreeArray(array.level(1)) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CHECK(array.levels() == 2);
}

TEST_CASE("the driver creates the same mipmapped arrays") {
  CUDA_OK(cudaSetDevice(0));
  CUDA_ARRAY3D_DESCRIPTOR all{};
  all.Width = all.Height = 12;
  all.Format = CU_AD_FORMAT_HALF;
  all.NumChannels = 1;
  CUmipmappedArray made = nullptr;
  DRIVER_OK("cuMipmappedArrayCreate", &made, static_cast<const CUDA_ARRAY3D_DESCRIPTOR*>(&all), 9U);
  CUarray level = nullptr;
  DRIVER_OK("cuMipmappedArrayGetLevel", &level, made, 3U);
  DRIVER_OK("cuArray3DGetDescriptor", &all, level);
  CHECK(all.Width == 1);
  CHECK(driver("cuMipmappedArrayGetLevel", &level, made, 4U) == kInvalidValue);
  DRIVER_OK("cuMipmappedArrayDestroy", made);
}
