#include <cuda_runtime_api.h>

#include <set>
#include <thread>

#include "device/cuda/driver.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("ids of streams are never reused, even if their handles are", "[gpu]") {
  const auto gpu = require_gpu();
  std::set<std::uint64_t> ids;
  constexpr std::size_t kStreams = 64;
  for (std::size_t i = 0; i < kStreams; ++i) {
    const TestStream stream{*gpu};
    ids.insert(gpu->stream_id(stream));
  }
  CHECK(ids.size() == kStreams);
}

TEST_CASE("the id of a stream stays the same", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  CHECK(gpu->stream_id(stream) == gpu->stream_id(stream));
  CHECK(gpu->stream_id(gpu->legacy_stream()) == gpu->stream_id(gpu->legacy_stream()));
}

TEST_CASE("a stream is busy until the work that was held back has run", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  CHECK(gpu->query(stream));
  HostGate gate{*gpu, stream};
  CHECK_FALSE(gpu->query(stream));
  gate.open();
  gpu->synchronize(stream);
  CHECK(gpu->query(stream));
}

TEST_CASE("work on a stream that is destroyed still runs", "[gpu]") {
  const auto gpu = require_gpu();
  const TestMemory memory{*gpu, 1, Where::host};
  memory.host()[0] = std::byte{1};
  {
    const StreamHandle stream = gpu->create_stream();
    HostGate gate{*gpu, stream};
    gpu->fill(memory.at(), 2, 1, stream);
    gpu->destroy_stream(stream);
    CHECK(memory.host()[0] == std::byte{1});
  }
  gpu->synchronize();
  CHECK(memory.host()[0] == std::byte{2});
}

TEST_CASE("each thread has its own per-thread stream", "[gpu]") {
  const auto gpu = require_gpu();
  const std::uint64_t here = gpu->stream_id(gpu->per_thread_stream());
  std::uint64_t there = here;
  std::thread{[&] { there = gpu->stream_id(gpu->per_thread_stream()); }}.join();
  CHECK(here != there);
  CHECK(here == gpu->stream_id(gpu->per_thread_stream()));
}

TEST_CASE("the legacy stream waits for blocking streams and for no others", "[gpu]") {
  const auto gpu = require_gpu();
  const bool blocking = GENERATE(true, false);
  const TestStream stream{*gpu, {.blocking = blocking}};
  const TestEvent event{*gpu};
  HostGate gate{*gpu, stream};
  gpu->record(event, gpu->legacy_stream());
  if (blocking) {
    CHECK_FALSE(gpu->query(event));
  } else {
    gpu->synchronize(event);
  }
  gate.open();
  gpu->synchronize(event);
  CHECK(gpu->query(event));
}

TEST_CASE("a call does not change the thread's current context", "[gpu]") {
  const auto gpu = require_gpu();
  CUcontext before = nullptr, after = nullptr;
  std::thread{[&] {
    cuda::driver().cuCtxGetCurrent(&before);
    const TestStream stream{*gpu};
    gpu->synchronize(stream);
    cuda::driver().cuCtxGetCurrent(&after);
  }}.join();
  CHECK(before == nullptr);
  CHECK(after == nullptr);
}

TEST_CASE("a stream in capture is reported as captured, and the legacy stream as blocked",
          "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu, {.blocking = true}};
  const cudaStream_t native = stream.native();
  CHECK(gpu->capture_status(stream) == CaptureStatus::none);
  CHECK(gpu->capture_status(gpu->legacy_stream()) == CaptureStatus::none);

  REQUIRE(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(gpu->capture_status(stream) == CaptureStatus::active);
  CHECK(gpu->capture_status(gpu->legacy_stream()) == CaptureStatus::blocked);

  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(gpu->capture_status(stream) == CaptureStatus::none);
}
