// Copies of arrays need an order, like copies of other memory.

#include "test/virtual_cuda/laws/arrays.hpp"

#include "test/virtual_cuda/checker/scene.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace millrace::test;

namespace {

cudaArray_t allocate(std::size_t width, std::size_t height) {
  const cudaChannelFormatDesc format = unsigned_format();
  cudaArray_t array = nullptr;
  CUDA_OK(cudaMallocArray(&array, &format, width, height, 0));
  return array;
}

/// Writes a row from a block of 64 bytes, which the copy only reads.
void write_row(cudaArray_t array, std::size_t y, const DeviceBlock& block, cudaStream_t stream) {
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, y, block.get(), 64, 64, 1, cudaMemcpyDeviceToDevice,
                                   stream));
}
void read_row(cudaArray_t array, std::size_t y, const DeviceBlock& block, cudaStream_t stream) {
  CUDA_OK(cudaMemcpy2DFromArrayAsync(block.get(), 64, array, 0, y, 64, 1, cudaMemcpyDeviceToDevice,
                                     stream));
}

}  // namespace

TEST_CASE("an unordered read and write of an array is named with both copies", "[laws]") {
  const Stream first, second;
  cudaArray_t const array = allocate(64, 4);
  const DeviceBlock source{64}, target{64};
  const Races races;
  write_row(array, 1, source, first);
  read_row(array, 0, target, second);
  CHECK(races.count() == 0);
  read_row(array, 1, target, second);
  CHECK(races.count() == 1);
  const Race race = Races::last();
  CHECK(race.kind == "read after write");
  CHECK_THAT(race.message, ContainsSubstring("cudaMemcpy2DToArrayAsync at "));
  CHECK_THAT(race.message, ContainsSubstring("cudaMemcpy2DFromArrayAsync at "));
  CHECK_THAT(race.message,
             ContainsSubstring("bytes 64 to 128 of the 256 bytes of cudaMallocArray"));
  CHECK_THAT(race.message, ContainsSubstring(", wait on "));
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFreeArray(array));
}

TEST_CASE("an event orders the copies of an array", "[laws]") {
  const Stream first, second;
  const Event event;
  cudaArray_t const array = allocate(64, 4);
  const DeviceBlock source{64}, target{64};
  const Races races;
  write_row(array, 1, source, first);
  CUDA_OK(cudaEventRecord(event, first));
  CUDA_OK(cudaStreamWaitEvent(second, event, 0));
  read_row(array, 1, target, second);
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaFreeArray(array));
  CHECK(races.count() == 0);
}

TEST_CASE("a copy of a freed array in a graph is named", "[laws]") {
  const Stream stream;
  cudaArray_t const array = allocate(64, 1);
  const DeviceBlock source{64};
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  write_row(array, 0, source, stream);
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  const cudaGraphExec_t executable = instantiate(graph);
  const Races races;
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaFreeArray(array));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CHECK(races.count() == 1);
  CHECK(Races::last().kind == "use after free");
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}
