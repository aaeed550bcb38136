// Copies of lines, which CUDA has deprecated. They continue in the next row where a row ends.

#include <rapidcheck.h>

#include "test/virtual_cuda/laws/arrays.hpp"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using namespace millrace::test;

namespace {

std::size_t pick(std::size_t least, std::size_t most) { return *rc::gen::inRange(least, most + 1); }

void clear(const Array& array, std::size_t width, std::size_t height) {
  const std::vector<unsigned char> zeros(width * height);
  CUDA_OK(
      cudaMemcpy2DToArray(array, 0, 0, zeros.data(), width, width, height, cudaMemcpyHostToDevice));
}

}  // namespace

TEST_CASE("a linear copy continues in the next row of each array") {
  constexpr std::size_t kWidth = 7, kHeight = 6, kOther = 5, kOtherHeight = 9;
  rc::check([] {
    const Array first{{kWidth, kHeight, 0}}, second{{kOther, kOtherHeight, 0}};
    clear(first, kWidth, kHeight);
    clear(second, kOther, kOtherHeight);
    const std::size_t bytes = pick(0, 30);
    std::vector<unsigned char> source(bytes);
    for (unsigned char& byte : source) byte = static_cast<unsigned char>(pick(1, 255));
    const auto start = [&](std::size_t all) { return pick(0, all - bytes - 1); };
    const std::size_t in_first = start(kWidth * kHeight);
    const std::size_t in_second = start(kOther * kOtherHeight);
    CUDA_OK(cudaMemcpyToArray(first, in_first % kWidth, in_first / kWidth, source.data(), bytes,
                              cudaMemcpyHostToDevice));
    std::vector<unsigned char> expected(kWidth * kHeight);
    std::copy(source.begin(), source.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(in_first));
    RC_ASSERT(read(first, kWidth, kHeight) == expected);
    CUDA_OK(cudaMemcpyArrayToArray(second, in_second % kOther, in_second / kOther, first,
                                   in_first % kWidth, in_first / kWidth, bytes,
                                   cudaMemcpyDeviceToDevice));
    std::vector<unsigned char> seen(bytes);
    CUDA_OK(cudaMemcpyFromArray(seen.data(), second, in_second % kOther, in_second / kOther, bytes,
                                cudaMemcpyDeviceToHost));
    CUDA_OK(cudaDeviceSynchronize());
    RC_ASSERT(seen == source);
  });
}

TEST_CASE("a linear copy beyond the end of an array is refused") {
  const Array array{{8, 4, 0}};
  const std::vector<unsigned char> source(40);
  CUDA_OK(cudaMemcpyToArray(array, 4, 1, source.data(), 20, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyToArray(array, 4, 1, source.data(), 21, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyToArray(array, 0, 4, source.data(), 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyToArray(nullptr, 0, 0, source.data(), 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}
