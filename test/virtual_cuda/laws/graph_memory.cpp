// Memory of allocation nodes, from the launch that allocates it to its free inside or outside of
// the graph.

#include <cstdint>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

/// A graph that allocates memory, fills it and does not free it.
class Maker {
 public:
  explicit Maker(const Stream& stream, unsigned long long flags = 0) {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUDA_OK(cudaMallocAsync(&block_, kUnit, stream));
    CUDA_OK(cudaMemsetAsync(block_, 6, kUnit, stream));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable_, graph, flags));
    CUDA_OK(cudaGraphDestroy(graph));
  }
  ~Maker() { destroy(); }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  void destroy() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    executable_ = nullptr;
  }
  cudaError_t launch(const Stream& stream) {
    const cudaError_t error = cudaGraphLaunch(executable_, stream);
    static_cast<void>(cudaGetLastError());
    return error;
  }
  [[nodiscard]] void* block() const { return block_; }

 private:
  cudaGraphExec_t executable_ = nullptr;
  void* block_ = nullptr;
};

/// True if the memory holds what the graph wrote. Waits for the stream.
bool filled(const Maker& maker, const Stream& stream) {
  CUDA_OK(cudaStreamSynchronize(stream));
  return read(maker.block(), kUnit) == all(kUnit, 6);
}

std::uint64_t amount(cudaGraphMemAttributeType which) {
  std::uint64_t value = 0;
  CUDA_OK(cudaDeviceGetGraphMemAttribute(0, which, &value));
  return value;
}

}  // namespace

TEST_CASE("memory that a graph allocated stays allocated after the graph is destroyed") {
  const Stream stream;
  CUDA_OK(cudaDeviceGraphMemTrim(0));
  const std::size_t before = free_memory();
  Maker maker{stream};
  CUDA_OK(maker.launch(stream));
  maker.destroy();
  // No other allocation gets this memory.
  const DeviceBlock other{kUnit};
  CUDA_OK(cudaMemset(other.get(), 1, kUnit));
  CHECK(filled(maker, stream));
  CHECK(free_memory() <= before - 2 * kUnit);
  SECTION("freed in stream order") { CUDA_OK(cudaFreeAsync(maker.block(), stream)); }
  SECTION("freed by the host") { CUDA_OK(cudaFree(maker.block())); }
  CHECK(cudaFreeAsync(maker.block(), stream) == cudaErrorInvalidValue);
  CHECK(cudaFree(maker.block()) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaDeviceGraphMemTrim(0));
  CHECK(same_memory(free_memory(), before - kUnit));
}

TEST_CASE("a graph whose memory is not freed cannot be launched again") {
  const Stream stream;
  Maker maker{stream};
  CHECK(cudaFreeAsync(maker.block(), stream) == cudaErrorInvalidValue);  // not allocated yet
  static_cast<void>(cudaGetLastError());
  CUDA_OK(maker.launch(stream));
  CHECK(maker.launch(stream) == cudaErrorInvalidValue);
  CUDA_OK(cudaFreeAsync(maker.block(), stream));
  CUDA_OK(maker.launch(stream));
  CHECK(filled(maker, stream));
  CUDA_OK(cudaFreeAsync(maker.block(), stream));
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("a launch with AutoFreeOnLaunch frees the memory of the previous launch") {
  const Stream stream;
  Maker maker{stream, cudaGraphInstantiateFlagAutoFreeOnLaunch};
  for (int i = 0; i < 3; ++i) CUDA_OK(maker.launch(stream));
  CHECK(filled(maker, stream));
  CUDA_OK(cudaFree(maker.block()));
}

TEST_CASE("memory of graphs counts as used until it is freed") {
  const Stream stream;
  CUDA_OK(cudaDeviceGraphMemTrim(0));
  const std::uint64_t before = amount(cudaGraphMemAttrUsedMemCurrent);
  std::uint64_t zero = 0;
  CUDA_OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
  CHECK(amount(cudaGraphMemAttrUsedMemHigh) == before);
  Maker maker{stream};
  CUDA_OK(maker.launch(stream));
  CHECK(amount(cudaGraphMemAttrUsedMemCurrent) == before + kUnit);
  CHECK(amount(cudaGraphMemAttrReservedMemCurrent) >= before + kUnit);
  maker.destroy();
  CUDA_OK(cudaDeviceGraphMemTrim(0));
  CHECK(amount(cudaGraphMemAttrUsedMemCurrent) == before + kUnit);
  CUDA_OK(cudaFreeAsync(maker.block(), stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaDeviceGraphMemTrim(0));
  CHECK(amount(cudaGraphMemAttrUsedMemCurrent) == before);
  CHECK(amount(cudaGraphMemAttrUsedMemHigh) == before + kUnit);
  CHECK(amount(cudaGraphMemAttrReservedMemHigh) >= before + kUnit);
  std::uint64_t one = 1;
  CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &one) ==
        cudaErrorInvalidValue);
  CHECK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero) ==
        cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}
