// Copies between arrays and memory of every kind, in the order of their streams.

#include <rapidcheck.h>

#include <cstring>

#include "test/virtual_cuda/laws/arrays.hpp"
#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

std::size_t pick(std::size_t least, std::size_t most) { return *rc::gen::inRange(least, most + 1); }

std::vector<unsigned char> random_bytes(std::size_t count) {
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(pick(0, 255));
  return bytes;
}

/// A box within a cube of `side` elements per edge.
struct Place {
  cudaPos at;
  std::size_t side;
  std::size_t element;  ///< bytes per element

  [[nodiscard]] std::size_t byte(std::size_t x, std::size_t y, std::size_t z) const {
    return ((at.z + z) * side + at.y + y) * side * element + at.x * element + x;
  }
};

void copy_in_a_loop(std::vector<unsigned char>& to, const Place& there,
                    const std::vector<unsigned char>& from, const Place& here,
                    const cudaExtent& box) {
  for (std::size_t z = 0; z < box.depth; ++z)
    for (std::size_t y = 0; y < box.height; ++y)
      for (std::size_t x = 0; x < box.width * here.element; ++x)
        to[there.byte(x, y, z)] = from[here.byte(x, y, z)];
}

CUarray driver_array(cudaArray_t array) { return reinterpret_cast<CUarray>(array); }

}  // namespace

TEST_CASE("copies of a box through two arrays agree with a loop over its bytes") {
  constexpr std::size_t kSide = 9;
  rc::check([] {
    const Stream stream;
    const std::size_t element = std::size_t{1} << pick(0, 4);
    const auto format = element <= 4 ? unsigned_format(8, static_cast<int>(element))
                                     : unsigned_format(32, static_cast<int>(element / 4));
    const std::size_t bytes = kSide * kSide * kSide * element;
    const Array first{{kSide, kSide, kSide}, format};
    const Array second{{kSide, kSide, kSide}, format, cudaArrayLayered};
    const std::vector<unsigned char> source = random_bytes(bytes);
    std::vector<unsigned char> model(bytes);
    const auto whole = [&](cudaArray_t array, unsigned char* memory, bool to_array) {
      cudaMemcpy3DParms box = box_of({kSide, kSide, kSide});
      (to_array ? box.srcPtr : box.dstPtr) = packed(memory, kSide * element, kSide);
      (to_array ? box.dstArray : box.srcArray) = array;
      CUDA_OK(cudaMemcpy3DAsync(&box, stream));
    };
    whole(second, model.data(), true);
    const auto offset = [] { return pick(0, 4); };
    const cudaExtent box{pick(1, 5), pick(1, 5), pick(1, 5)};
    const auto place = [&](std::size_t unit) {
      return Place{{offset(), offset(), offset()}, kSide, unit};
    };
    // Copies the box to the first array.
    const Place in_source = place(element), in_first = place(element);
    cudaMemcpy3DParms step = box_of(box, cudaMemcpyHostToDevice);
    step.srcPtr = packed(source.data(), kSide * element, kSide);
    step.srcPos = {in_source.at.x * element, in_source.at.y, in_source.at.z};
    step.dstArray = first;
    step.dstPos = in_first.at;
    CUDA_OK(cudaMemcpy3DAsync(&step, stream));
    // Copies it to the second array, and from there to memory.
    const Place in_second = place(element);
    step = box_of(box, cudaMemcpyDeviceToDevice);
    step.srcArray = first;
    step.srcPos = in_first.at;
    step.dstArray = second;
    step.dstPos = in_second.at;
    CUDA_OK(cudaMemcpy3DAsync(&step, stream));
    const DeviceBlock block{bytes};
    whole(second, block.get(), false);
    std::vector<unsigned char> seen(bytes);
    CUDA_OK(cudaMemcpyAsync(seen.data(), block.get(), bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    copy_in_a_loop(model, in_second, source, in_source, box);
    RC_ASSERT(seen == model);
  });
}

TEST_CASE("a copy that exceeds its array is refused") {
  const Array array{{8, 4, 2}, unsigned_format(16)};
  std::vector<unsigned char> memory(64);
  const auto copied = [&](cudaPos at, cudaExtent extent) {
    cudaMemcpy3DParms box = box_of(extent);
    box.srcPtr = packed(memory.data(), extent.width * 2, extent.height);
    box.dstArray = array;
    box.dstPos = at;
    const cudaError_t error = cudaMemcpy3D(&box);
    static_cast<void>(cudaGetLastError());
    return error;
  };
  CHECK(copied({7, 3, 1}, {1, 1, 1}) == cudaSuccess);
  CHECK(copied({0, 0, 0}, {8, 1, 2}) == cudaSuccess);
  CHECK(copied({7, 3, 1}, {2, 1, 1}) == cudaErrorInvalidValue);
  CHECK(copied({7, 3, 1}, {1, 2, 1}) == cudaErrorInvalidValue);
  CHECK(copied({7, 3, 1}, {1, 1, 2}) == cudaErrorInvalidValue);
  CHECK(copied({9, 0, 0}, {1, 1, 1}) == cudaErrorInvalidValue);
  CHECK(copied({~std::size_t{0}, 0, 0}, {2, 1, 1}) == cudaErrorInvalidValue);
  CHECK(copied({1, 0, 0}, {~std::size_t{0}, 1, 1}) == cudaErrorInvalidValue);
}

TEST_CASE("each end of a copy is either an array or memory, and element sizes agree") {
  const Array bytes{{8, 0, 0}}, words{{8, 0, 0}, unsigned_format(16)}, chars{{8, 0, 0}};
  const DeviceBlock block{64};
  const auto copied = [](const cudaMemcpy3DParms& box) {
    const cudaError_t error = cudaMemcpy3D(&box);
    static_cast<void>(cudaGetLastError());
    return error;
  };
  cudaMemcpy3DParms box = box_of({8, 1, 1});
  box.srcArray = bytes;
  CHECK(copied(box) == cudaErrorInvalidValue);
  box.dstArray = words;
  CHECK(copied(box) == cudaErrorInvalidValue);
  box.dstArray = chars;
  CHECK(copied(box) == cudaSuccess);
  box.dstPtr = packed(block.get(), 8, 1);
  CHECK(copied(box) == cudaErrorInvalidValue);
  box.dstArray = nullptr;
  CHECK(copied(box) == cudaSuccess);
  only_virtual("a GPU's runtime reads what a handle points to");
  box.srcArray = reinterpret_cast<cudaArray_t>(block.get());
  CHECK(copied(box) == cudaErrorInvalidValue);
}

TEST_CASE("a copy of a box accepts any kind that fits an array on the GPU") {
  const Array array{{8, 0, 0}};
  const std::vector<unsigned char> source = all(8, 5);
  std::vector<unsigned char> seen(8);
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToHost, cudaMemcpyHostToDevice}) {
    cudaMemcpy3DParms box = box_of({8, 1, 1}, kind);
    box.srcPtr = packed(source.data(), 8, 1);
    box.dstArray = array;
    CUDA_OK(cudaMemcpy3D(&box));
  }
  for (const cudaMemcpyKind kind : {cudaMemcpyHostToHost, cudaMemcpyDeviceToHost}) {
    cudaMemcpy3DParms box = box_of({8, 1, 1}, kind);
    box.srcArray = array;
    box.dstPtr = packed(seen.data(), 8, 1);
    CUDA_OK(cudaMemcpy3D(&box));
  }
  CHECK(seen == source);
}

TEST_CASE("rows are copied to, between and from arrays, at offsets in bytes") {
  const Array first{{8, 4, 0}, unsigned_format(16)}, second{{16, 4, 0}};
  std::vector<unsigned char> source(4 * 10);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i);
  const std::vector<unsigned char> zeros(16 * 4);
  for (const Array* const array : {&first, &second})
    CUDA_OK(cudaMemcpy2DToArray(*array, 0, 0, zeros.data(), 16, 16, 4, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemcpy2DToArray(first, 2, 1, source.data(), 10, 6, 3, cudaMemcpyDefault));
  std::vector<unsigned char> expected(16 * 4);
  for (std::size_t y = 0; y < 3; ++y) std::memcpy(&expected[(y + 1) * 16 + 2], &source[y * 10], 6);
  CHECK(read(first, 16, 4) == expected);
  CHECK(cudaMemcpy2DArrayToArray(second, 0, 0, first, 0, 0, 4, 1, cudaMemcpyDeviceToDevice) ==
        cudaErrorInvalidValue);  // elements of different sizes
  const Array third{{8, 4, 0}, unsigned_format(16)};
  CUDA_OK(cudaMemcpy2DToArray(third, 0, 0, zeros.data(), 16, 16, 4, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemcpy2DArrayToArray(third, 4, 0, first, 2, 1, 4, 2, cudaMemcpyDeviceToDevice));
  expected = zeros;
  for (std::size_t y = 0; y < 2; ++y) std::memcpy(&expected[y * 16 + 4], &source[y * 10], 4);
  CHECK(read(third, 16, 4) == expected);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("copies of rows beyond an array or with a wrong pitch or kind are refused") {
  const Array array{{8, 4, 0}, unsigned_format(16)};
  std::vector<unsigned char> memory(64);
  const auto to = [&](std::size_t x, std::size_t y, std::size_t pitch, std::size_t width,
                      std::size_t height, cudaMemcpyKind kind) {
    return cudaMemcpy2DToArray(array, x, y, memory.data(), pitch, width, height, kind);
  };
  CHECK(to(0, 0, 16, 16, 4, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(to(2, 0, 16, 16, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(to(0, 1, 16, 16, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(to(0, 0, 14, 16, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidPitchValue);
  CHECK(to(0, 0, std::size_t{1} << 31, 16, 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidPitchValue);
  CHECK(to(0, 0, 16, 16, 4, static_cast<cudaMemcpyKind>(5)) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy2DToArray(nullptr, 0, 0, memory.data(), 16, 16, 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  only_virtual("it is not documented which of these a GPU's runtime refuses");
  CHECK(to(1, 0, 16, 2, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(to(0, 0, 16, 3, 1, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(to(0, 0, 16, 16, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy2DFromArray(memory.data(), 16, array, 0, 0, 16, 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidMemcpyDirection);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("the driver copies a row of an array at an offset in bytes") {
  const Array first{{8, 0, 0}, unsigned_format(16)}, second{{8, 0, 0}, unsigned_format(16)};
  const DeviceBlock block{16};
  const std::vector<unsigned char> source = all(16, 3);
  std::vector<unsigned char> seen(16);
  using Bytes = std::size_t;
  const CUarray one = driver_array(first);
  const CUarray two = driver_array(second);
  const auto* const from = static_cast<const void*>(source.data());
  auto* const to = static_cast<void*>(seen.data());
  DRIVER_OK("cuMemcpyHtoA", one, Bytes{0}, from, Bytes{16});
  DRIVER_OK("cuMemcpyAtoA", two, Bytes{4}, one, Bytes{0}, Bytes{12});
  DRIVER_OK("cuMemcpyAtoD", address_of(block.get()), two, Bytes{4}, Bytes{12});
  CHECK(read(block.get(), 12) == all(12, 3));
  DRIVER_OK("cuMemcpyDtoA", two, Bytes{0}, address_of(block.get()), Bytes{4});
  DRIVER_OK("cuMemcpyAtoH", to, two, Bytes{0}, Bytes{16});
  CHECK(seen == source);
  const Stream stream;
  const auto handle = static_cast<CUstream>(stream);
  const std::vector<unsigned char> other = all(8, 9);
  DRIVER_OK("cuMemcpyHtoAAsync", one, Bytes{8}, static_cast<const void*>(other.data()), Bytes{8},
            handle);
  DRIVER_OK("cuMemcpyAtoHAsync", to, one, Bytes{6}, Bytes{10}, handle);
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[1] == 3);
  CHECK(seen[2] == 9);
  CHECK(driver("cuMemcpyHtoA", one, Bytes{8}, from, Bytes{10}) == kInvalidValue);
  CHECK(driver("cuMemcpyHtoA", static_cast<CUarray>(nullptr), Bytes{0}, from, Bytes{2}) ==
        kInvalidValue);
  CHECK(driver("cuMemcpyAtoD", address_of(block.get()), two, Bytes{0}, Bytes{3}) == kInvalidValue);
}

TEST_CASE("boxes of the driver can have arrays, and their widths are in bytes") {
  const Array array{{4, 4, 2}, unsigned_format(32)};
  std::vector<unsigned char> source(16 * 4 * 2);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<unsigned char>(i);
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = source.data();
  box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  box.dstArray = driver_array(array);
  box.WidthInBytes = 16;
  box.Height = 4;
  box.Depth = 2;
  DRIVER_OK("cuMemcpy3D", static_cast<const CUDA_MEMCPY3D*>(&box));
  std::vector<unsigned char> seen(8);
  CUDA_MEMCPY2D rows{};
  rows.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  rows.srcArray = driver_array(array);
  rows.srcXInBytes = 4;
  rows.srcY = 1;
  rows.dstMemoryType = CU_MEMORYTYPE_HOST;
  rows.dstHost = seen.data();
  rows.WidthInBytes = 4;
  rows.Height = 2;
  DRIVER_OK("cuMemcpy2D", static_cast<const CUDA_MEMCPY2D*>(&rows));
  CHECK(seen == std::vector<unsigned char>{20, 21, 22, 23, 36, 37, 38, 39});
  rows.srcXInBytes = 2;
  CHECK(driver("cuMemcpy2D", static_cast<const CUDA_MEMCPY2D*>(&rows)) == kInvalidValue);
  rows.srcXInBytes = 16;
  CHECK(driver("cuMemcpy2D", static_cast<const CUDA_MEMCPY2D*>(&rows)) == kInvalidValue);
}

TEST_CASE("copies of an array are ordered by their stream and by events") {
  const Stream first, second;
  const Event written, seen;
  const Array array{{64, 0, 0}};
  const DeviceBlock block{64}, other{64};
  CUDA_OK(cudaMemsetAsync(block.get(), 1, 64, first));
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, block.get(), 64, 64, 1, cudaMemcpyDeviceToDevice,
                                   first));
  CUDA_OK(cudaEventRecord(written, first));
  CUDA_OK(cudaMemsetAsync(block.get(), 2, 64, first));
  CUDA_OK(cudaStreamWaitEvent(second, written, 0));
  CUDA_OK(cudaMemcpy2DFromArrayAsync(other.get(), 64, array, 0, 0, 64, 1, cudaMemcpyDeviceToDevice,
                                     second));
  CUDA_OK(cudaEventRecord(seen, second));
  CUDA_OK(cudaStreamWaitEvent(first, seen, 0));
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, block.get(), 64, 64, 1, cudaMemcpyDeviceToDevice,
                                   first));
  CUDA_OK(cudaStreamSynchronize(first));
  CHECK(read(other) == all(64, 1));
  CHECK(read(array, 64, 1) == all(64, 2));
}

TEST_CASE("a copy to an array reads pinned memory when it runs in the stream") {
  const Stream stream;
  const Array array{{64, 0, 0}};
  const PinnedBlock source{64};
  std::memset(source.get(), 4, 64);
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, source.get(), 64, 64, 1, cudaMemcpyHostToDevice,
                                   stream));
  std::memset(source.get(), 5, 64);
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(array, 64, 1) == all(64, deferred() ? 5 : 4));
  std::vector<unsigned char> pageable = all(64, 6);
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, pageable.data(), 64, 64, 1, cudaMemcpyHostToDevice,
                                   stream));
  std::memset(pageable.data(), 7, 64);
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(array, 64, 1) == all(64, 6));
}

TEST_CASE("an array of another GPU can be copied to") {
  needs_two_gpus();
  CUDA_OK(cudaSetDevice(1));
  const Array far{{64, 0, 0}};
  CUDA_OK(cudaSetDevice(0));
  const DeviceBlock near{64};
  CUDA_OK(cudaMemset(near.get(), 7, 64));
  cudaMemcpy3DPeerParms box{};
  box.srcPtr = packed(near.get(), 64, 1);
  box.srcDevice = 0;
  box.dstArray = far;
  box.dstDevice = 1;
  box.extent = {64, 1, 1};
  CUDA_OK(cudaMemcpy3DPeer(&box));
  CUDA_OK(cudaDeviceSynchronize());
  CHECK(read(far, 64, 1) == all(64, 7));
}
