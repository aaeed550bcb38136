#include <set>
#include <thread>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

TEST_CASE("work on one stream takes effect in the order of its calls") {
  const Stream stream;
  const DeviceBlock block{256};
  const PinnedBlock seen{4 * 256};
  for (int i = 0; i < 4; ++i) {
    CUDA_OK(cudaMemsetAsync(block.get(), i + 1, 256, stream));
    CUDA_OK(
        cudaMemcpyAsync(seen.get() + 256 * i, block.get(), 256, cudaMemcpyDeviceToHost, stream));
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  for (int i = 0; i < 4; ++i) {
    CHECK(seen[static_cast<std::size_t>(256 * i)] == i + 1);
    CHECK(seen[static_cast<std::size_t>(256 * i + 255)] == i + 1);
  }
}

TEST_CASE("a copy into pinned memory is not visible before its synchronization") {
  const Stream stream;
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  CUDA_OK(cudaMemset(block.get(), 7, 64));
  CUDA_OK(cudaDeviceSynchronize());
  seen[0] = 1;
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 64, cudaMemcpyDeviceToHost, stream));
  CHECK(seen[0] == (deferred() ? 1 : 7));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 7);
}

TEST_CASE("a stream that waits for an event comes after the work before the record") {
  const Stream first;
  const Stream second;
  const Event event;
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  CUDA_OK(cudaMemsetAsync(block.get(), 3, 64, first));
  CUDA_OK(cudaEventRecord(event, first));
  CUDA_OK(cudaMemsetAsync(seen.get(), 9, 64, first));
  CUDA_OK(cudaStreamWaitEvent(second, event, 0));
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 32, cudaMemcpyDeviceToHost, second));
  CUDA_OK(cudaStreamSynchronize(second));
  CHECK((seen[0] == 3 || seen[0] == 9));  // the fill of `seen` is not ordered with it
  CUDA_OK(cudaStreamSynchronize(first));
  CHECK(seen[63] == 9);
}

TEST_CASE("an event that is recorded again does not change what a stream waits for") {
  const Stream first;
  const Stream second;
  const Event event;
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  seen[0] = 1;
  CUDA_OK(cudaMemsetAsync(block.get(), 5, 64, first));
  CUDA_OK(cudaEventRecord(event, first));
  CUDA_OK(cudaStreamWaitEvent(second, event, 0));
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 64, cudaMemcpyDeviceToHost, second));
  CUDA_OK(cudaEventRecord(event, second));
  CUDA_OK(cudaEventSynchronize(event));
  CHECK(seen[0] == 5);
}

TEST_CASE("a wait for an event that was never recorded orders nothing") {
  const Stream stream;
  const Event event;
  CUDA_OK(cudaStreamWaitEvent(stream, event, 0));
  CUDA_OK(cudaEventQuery(event));
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("the legacy stream is ordered with earlier and later work of blocking streams") {
  const Stream blocking{cudaStreamDefault};
  const Stream other{cudaStreamDefault};
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  const auto legacy = GENERATE(cudaStream_t{nullptr}, cudaStream_t{cudaStreamLegacy});
  CUDA_OK(cudaMemsetAsync(block.get(), 1, 64, blocking));
  CUDA_OK(cudaMemsetAsync(block.get(), 2, 32, legacy));
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 64, cudaMemcpyDeviceToHost, other));
  CUDA_OK(cudaStreamSynchronize(other));
  CHECK(seen[0] == 2);
  CHECK(seen[63] == 1);
}

TEST_CASE("the work of a destroyed stream runs before later work of the legacy stream") {
  const DeviceBlock block{64};
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaMemsetAsync(block.get(), 8, 64, stream));
  CUDA_OK(cudaStreamDestroy(stream));
  CHECK(read(block) == all(64, 8));
}

TEST_CASE("a synchronization of the device waits for the work of destroyed streams") {
  const PinnedBlock seen{1};
  cudaStream_t stream = nullptr;
  const unsigned flags = GENERATE(unsigned{cudaStreamDefault}, unsigned{cudaStreamNonBlocking});
  CUDA_OK(cudaStreamCreateWithFlags(&stream, flags));
  seen[0] = 1;
  CUDA_OK(cudaMemsetAsync(seen.get(), 2, 1, stream));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaDeviceSynchronize());
  CHECK(seen[0] == 2);
}

TEST_CASE("a repeated query of pending work finally succeeds") {
  const Stream stream;
  const Event event;
  const DeviceBlock block{64};
  CUDA_OK(cudaMemsetAsync(block.get(), 8, 64, stream));
  CUDA_OK(cudaEventRecord(event, stream));
  int queries = 1;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++queries;
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(queries < 1000);
  CHECK((deferred() || queries == 1));
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++queries;
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a completed event stays complete") {
  const Stream stream;
  const Event event;
  const DeviceBlock block{64};
  CUDA_OK(cudaMemsetAsync(block.get(), 8, 64, stream));
  CUDA_OK(cudaEventRecord(event, stream));
  CUDA_OK(cudaEventSynchronize(event));
  for (int i = 0; i < 20; ++i) CHECK(cudaEventQuery(event) == cudaSuccess);
}

TEST_CASE("streams keep their flags, have ids of their own, and priorities within the range") {
  int least = 0;
  int greatest = 0;
  CUDA_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest < least);
  std::set<unsigned long long> ids;
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    cudaStream_t stream = nullptr;
    CUDA_OK(cudaStreamCreateWithPriority(&stream, flags, greatest - 7));
    unsigned kept = 9;
    int priority = 9;
    unsigned long long id = 0;
    CUDA_OK(cudaStreamGetFlags(stream, &kept));
    CUDA_OK(cudaStreamGetPriority(stream, &priority));
    CUDA_OK(cudaStreamGetId(stream, &id));
    CHECK(kept == flags);
    CHECK(priority == greatest);
    CHECK(ids.insert(id).second);
    CUDA_OK(cudaStreamDestroy(stream));
  }
  for (const cudaStream_t stream : {cudaStreamLegacy, cudaStreamPerThread}) {
    unsigned long long id = 0;
    CUDA_OK(cudaStreamGetId(stream, &id));
    CHECK(ids.insert(id).second);
  }
}

TEST_CASE("a destroyed handle is refused, and its error is the thread's last error once") {
  only_virtual("NVIDIA's runtime ends the process for a destroyed stream");
  cudaStream_t stream = nullptr;
  CUDA_OK(cudaStreamCreate(&stream));
  CUDA_OK(cudaStreamDestroy(stream));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidResourceHandle);
  std::thread{[] { CHECK(cudaGetLastError() == cudaSuccess); }}.join();
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("each thread has a per-thread default stream of its own") {
  const DeviceBlock block{2 * 64};
  const PinnedBlock seen{2 * 64};
  unsigned long long ids[2] = {0, 0};
  const auto work = [&](int i) {
    cudaStreamGetId(cudaStreamPerThread, &ids[i]);
    cudaMemsetAsync(block.get() + 64 * i, i + 1, 64, cudaStreamPerThread);
    cudaMemcpyAsync(seen.get() + 64 * i, block.get() + 64 * i, 64, cudaMemcpyDeviceToHost,
                    cudaStreamPerThread);
    cudaStreamSynchronize(cudaStreamPerThread);
  };
  std::thread first{work, 0};
  std::thread second{work, 1};
  first.join();
  second.join();
  CHECK(seen[0] == 1);
  CHECK(seen[127] == 2);
  CHECK(ids[0] != ids[1]);
}

TEST_CASE("the time between two events is not negative and needs two timed, recorded events") {
  const Stream stream;
  const Event start{cudaEventDefault};
  const Event end{cudaEventDefault};
  const Event untimed;
  const DeviceBlock block{1 << 16};
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end) == cudaErrorInvalidResourceHandle);
  CUDA_OK(cudaEventRecord(start, stream));
  CUDA_OK(cudaMemsetAsync(block.get(), 1, block.bytes(), stream));
  CUDA_OK(cudaEventRecord(end, stream));
  CUDA_OK(cudaEventRecord(untimed, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CUDA_OK(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0);
  CHECK(cudaEventElapsedTime(&milliseconds, start, untimed) == cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
}
