// Copies of arrays in graphs: nodes, and captured copies.

#include <algorithm>

#include "test/virtual_cuda/laws/arrays.hpp"
#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

/// Launches a graph after all work that was enqueued so far, and waits for it.
void run(cudaGraphExec_t executable) {
  CUDA_OK(cudaDeviceSynchronize());
  const Stream stream;
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
}

/// Threes in one of four rows of 16 bytes, zeros in the others.
std::vector<unsigned char> threes_in_row(std::size_t row) {
  std::vector<unsigned char> data(16 * 4);
  std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(row * 16), 16, 3);
  return data;
}

}  // namespace

TEST_CASE("a node copies to an array and returns its parameters") {
  const Array array{{8, 4, 0}, unsigned_format(16)};
  const DeviceBlock block{16 * 4};
  const std::vector<unsigned char> zeros(16 * 4);
  CUDA_OK(cudaMemcpy2DToArray(array, 0, 0, zeros.data(), 16, 16, 4, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemset(block.get(), 3, block.bytes()));
  cudaMemcpy3DParms box = box_of({4, 2, 1}, cudaMemcpyDeviceToDevice);
  box.srcPtr = packed(block.get(), 16, 4);
  box.dstArray = array;
  box.dstPos = {1, 2, 0};
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  CUDA_OK(cudaGraphAddMemcpyNode(&node, graph, nullptr, 0, &box));
  cudaMemcpy3DParms found{};
  CUDA_OK(cudaGraphMemcpyNodeGetParams(node, &found));
  CHECK(found.dstArray == array);
  CHECK(found.dstPos.x == 1);
  CHECK(found.dstPos.y == 2);
  CHECK(found.srcPtr.ptr == block.get());
  CHECK(found.extent.width == 4);
  CHECK(found.extent.height == 2);
  CUDA_MEMCPY3D all{};
  DRIVER_OK("cuGraphMemcpyNodeGetParams", node, &all);
  CHECK(all.dstMemoryType == CU_MEMORYTYPE_ARRAY);
  CHECK(all.dstArray == reinterpret_cast<CUarray>(static_cast<cudaArray_t>(array)));
  CHECK(all.dstXInBytes == 2);
  CHECK(all.WidthInBytes == 8);

  const cudaGraphExec_t executable = instantiate(graph);
  run(executable);
  std::vector<unsigned char> expected(16 * 4);
  for (const std::size_t y : {2U, 3U})
    for (std::size_t x = 2; x < 10; ++x) expected[y * 16 + x] = 3;
  CHECK(read(array, 16, 4) == expected);

  // The node gets another place in the same array.
  CUDA_OK(cudaMemcpy2DToArray(array, 0, 0, zeros.data(), 16, 16, 4, cudaMemcpyHostToDevice));
  found.dstPos = {0, 0, 0};
  found.extent = {8, 1, 1};
  CUDA_OK(cudaGraphExecMemcpyNodeSetParams(executable, node, &found));
  run(executable);
  CHECK(read(array, 16, 4) == threes_in_row(0));
  found.extent.height = 5;
  CHECK(cudaGraphExecMemcpyNodeSetParams(executable, node, &found) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a copy node of the driver copies to an array") {
  const Array array{{8, 0, 0}};
  const DeviceBlock block{8};
  CUDA_OK(cudaMemset(block.get(), 6, 8));
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = address_of(block.get());
  box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  box.dstArray = reinterpret_cast<CUarray>(static_cast<cudaArray_t>(array));
  box.WidthInBytes = 8;
  box.Height = box.Depth = 1;
  CUcontext context = nullptr;
  DRIVER_OK("cuCtxGetCurrent", &context);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  DRIVER_OK("cuGraphCreate", &graph, 0U);
  DRIVER_OK("cuGraphAddMemcpyNode", &node, graph, static_cast<const CUgraphNode*>(nullptr),
            std::size_t{0}, static_cast<const CUDA_MEMCPY3D*>(&box), context);
  const cudaGraphExec_t executable = instantiate(graph);
  run(executable);
  CHECK(read(array, 8, 1) == all(8, 6));
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("captured copies of arrays run at each launch") {
  const Stream stream;
  const Array array{{8, 2, 0}};
  const DeviceBlock block{16}, other{16};
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, block.get(), 8, 8, 2, cudaMemcpyDeviceToDevice,
                                   stream));
  cudaMemcpy3DParms box = box_of({4, 2, 1}, cudaMemcpyDeviceToDevice);
  box.srcArray = array;
  box.srcPos = {4, 0, 0};
  box.dstPtr = packed(other.get(), 8, 2);
  CUDA_OK(cudaMemcpy3DAsync(&box, stream));
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CHECK(count_nodes(graph) == 2);
  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaMemset(other.get(), 0, 16));
  for (const unsigned char value : {1, 2}) {
    CUDA_OK(cudaMemset(block.get(), value, 16));
    run(executable);
    const std::vector<unsigned char> v{value, value, value, value, 0, 0, 0, 0,
                                       value, value, value, value, 0, 0, 0, 0};
    CHECK(read(other) == v);
  }
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a captured copy that exceeds its array adds no node") {
  const Stream stream;
  const Array array{{8, 0, 0}};
  std::vector<unsigned char> memory(8);
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK(cudaMemcpy2DToArrayAsync(array, 9, 0, memory.data(), 8, 8, 1, cudaMemcpyHostToDevice,
                                 stream) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, memory.data(), 8, 8, 1, cudaMemcpyHostToDevice,
                                   stream));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CHECK(count_nodes(graph) == 1);
  CUDA_OK(cudaGraphDestroy(graph));
}
