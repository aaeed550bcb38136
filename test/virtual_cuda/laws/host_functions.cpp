#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

struct Note {
  std::vector<int>* notes;
  int number;
};

void write_down(void* data) {
  const auto* const note = static_cast<const Note*>(data);
  note->notes->push_back(note->number);
}

struct Gate {
  std::atomic<bool> entered{false};
  std::atomic<bool> open{false};
};

void pass(void* data) {
  auto* const gate = static_cast<Gate*>(data);
  gate->entered = true;
  while (!gate->open) std::this_thread::yield();
}

}  // namespace

TEST_CASE("host functions run in stream order, after the earlier work is done") {
  const Stream stream;
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  std::vector<int> notes;
  Note first{&notes, 1};
  Note second{&notes, 2};
  struct Look {
    const unsigned char* at;
    int found;
  } look{seen.get(), 0};
  CUDA_OK(cudaLaunchHostFunc(stream, write_down, &first));
  CUDA_OK(cudaMemsetAsync(block.get(), 6, 64, stream));
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 64, cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaLaunchHostFunc(
      stream,
      [](void* data) {
        auto* const at = static_cast<Look*>(data);
        at->found = at->at[63];
      },
      &look));
  CUDA_OK(cudaLaunchHostFunc(stream, write_down, &second));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(notes == std::vector{1, 2});
  CHECK(look.found == 6);
}

TEST_CASE("a stream callback gets its stream, its data and cudaSuccess") {
  const Stream stream;
  struct Call {
    cudaStream_t stream = nullptr;
    cudaError_t status = cudaErrorUnknown;
  } call;
  CUDA_OK(cudaStreamAddCallback(
      stream,
      [](cudaStream_t of, cudaError_t status, void* data) {
        *static_cast<Call*>(data) = {of, status};
      },
      &call, 0));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(call.stream == static_cast<cudaStream_t>(stream));
  CHECK(call.status == cudaSuccess);
}

TEST_CASE("a host function may not call CUDA") {
  const Stream stream;
  cudaError_t errors[2] = {cudaSuccess, cudaSuccess};
  CUDA_OK(cudaLaunchHostFunc(
      stream,
      [](void* data) {
        auto* const found = static_cast<cudaError_t*>(data);
        void* address = nullptr;
        found[0] = cudaMalloc(&address, 64);
        found[1] = cudaDeviceSynchronize();
      },
      errors));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(errors[0] == cudaErrorNotPermitted);
  CHECK(errors[1] == cudaErrorNotPermitted);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a host function that waits for the program blocks only its own stream") {
  const Stream gated;
  const Stream free;
  const Event event;
  const PinnedBlock seen{2};
  const DeviceBlock block{64};
  Gate gate;
  seen[0] = seen[1] = 0;
  CUDA_OK(cudaLaunchHostFunc(gated, pass, &gate));
  CUDA_OK(cudaMemsetAsync(seen.get(), 1, 1, gated));
  CUDA_OK(cudaEventRecord(event, gated));
  CUDA_OK(cudaMemsetAsync(seen.get() + 1, 1, 1, free));
  CUDA_OK(cudaStreamSynchronize(free));
  CHECK(seen[1] == 1);
  CHECK(seen[0] == 0);
  for (int i = 0; i < 10; ++i) CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  gate.open = true;
  CUDA_OK(cudaStreamSynchronize(gated));
  CHECK(seen[0] == 1);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("work takes effect even if the program only polls memory") {
  const Stream stream;
  const PinnedBlock seen{1};
  std::atomic<bool> called{false};
  seen[0] = 0;
  CUDA_OK(cudaMemsetAsync(seen.get(), 1, 1, stream));
  CUDA_OK(cudaLaunchHostFunc(
      stream, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &called));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (!called && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(called);
  CHECK(seen[0] == 1);
}
