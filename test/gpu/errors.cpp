#include <cuda_runtime_api.h>

#include <cstdlib>
#include <thread>

#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Ends the capture of a stream. @return whether the capture was still valid
bool end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t result = cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  static_cast<void>(cudaGetLastError());
  return result == cudaSuccess;
}

}  // namespace

TEST_CASE("an allocation beyond the GPU's memory names its size, and leaves no error in CUDA",
          "[gpu]") {
  const auto gpu = require_gpu();
  const std::size_t too_much = 2 * gpu->memory_info().total;
  CHECK(error_of([&] { static_cast<void>(gpu->allocate(too_much)); }) == ErrorCode::out_of_memory);
  CHECK_THROWS_WITH(gpu->allocate(too_much),
                    ContainsSubstring("cudaMalloc(" + std::to_string(too_much) + ")"));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  const TestMemory memory{*gpu, 1};
  CHECK(memory.at() != nullptr);
}

TEST_CASE("an address that CUDA does not know is an invalid argument", "[gpu]") {
  const auto gpu = require_gpu();
  int local = 0;
  CHECK(error_of([&] { gpu->free(&local); }) == ErrorCode::invalid_argument);
  CHECK(error_of([&] { gpu->free_host(&local); }) == ErrorCode::invalid_argument);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("a query of a stream in capture is refused, and the capture stays valid", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  REQUIRE(cudaStreamBeginCapture(stream.native(), cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(error_of([&] { static_cast<void>(gpu->stream_id(stream)); }) == ErrorCode::capture);
  CHECK(error_of([&] { static_cast<void>(gpu->query(stream)); }) == ErrorCode::capture);
  CHECK(error_of([&] { gpu->synchronize(stream); }) == ErrorCode::capture);
  CHECK(end_capture(stream.native()));
  CHECK(gpu->query(stream));
}

TEST_CASE("work for a stream in capture is refused, and the capture stays valid", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestEvent event{*gpu};
  const TestMemory memory{*gpu, 16};
  REQUIRE(cudaStreamBeginCapture(stream.native(), cudaStreamCaptureModeGlobal) == cudaSuccess);
  CHECK(error_of([&] { gpu->record(event, stream); }) == ErrorCode::capture);
  CHECK(error_of([&] { gpu->wait(stream, event); }) == ErrorCode::capture);
  CHECK(error_of([&] { gpu->fill(memory.at(), 0, 16, stream); }) == ErrorCode::capture);
  CHECK(error_of([&] { gpu->launch(hold(Nanoseconds{1}), stream); }) == ErrorCode::capture);
  CHECK(end_capture(stream.native()));
  gpu->record(event, stream);
  gpu->synchronize(event);
}

TEST_CASE("a query of an event that was recorded in a capture throws a capture error", "[gpu]") {
  const auto gpu = require_gpu();
  // A query breaks the capture, and the event is then no longer captured. So each query has its own
  // capture.
  const auto refused_with = [&](auto&& ask) {
    const TestStream stream{*gpu};
    const TestEvent event{*gpu};
    REQUIRE(cudaStreamBeginCapture(stream.native(), cudaStreamCaptureModeRelaxed) == cudaSuccess);
    const auto native_event = static_cast<cudaEvent_t>(EventHandle(event).value);
    REQUIRE(cudaEventRecord(native_event, stream.native()) == cudaSuccess);
    const ErrorCode code = error_of([&] { ask(event); });
    static_cast<void>(end_capture(stream.native()));
    return code;
  };
  CHECK(refused_with([&](EventHandle event) { static_cast<void>(gpu->query(event)); }) ==
        ErrorCode::capture);
  CHECK(refused_with([&](EventHandle event) { gpu->synchronize(event); }) == ErrorCode::capture);
}

TEST_CASE("calls at host time leave the capture of another stream valid", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream captured{*gpu}, other{*gpu};
  const TestEvent event{*gpu};
  gpu->record(event, other);
  REQUIRE(cudaStreamBeginCapture(captured.native(), cudaStreamCaptureModeGlobal) == cudaSuccess);
  const bool another_thread = GENERATE(false, true);
  const auto act = [&] {
    gpu->free(gpu->allocate(1 << 20));
    gpu->free_host(gpu->allocate_host(1 << 20));
    gpu->synchronize(event);
    static_cast<void>(gpu->query(event));
    static_cast<void>(gpu->query(other));
    static_cast<void>(gpu->memory_info());
    gpu->destroy_event(gpu->create_event());
    gpu->destroy_stream(gpu->create_stream());
  };
  if (another_thread) {
    std::thread{act}.join();
  } else {
    act();
  }
  CHECK(end_capture(captured.native()));
}

TEST_CASE("a kernel that touches memory that does not exist loses the device for good", "[gpu]") {
  static_cast<void>(require_gpu());
  CHECK(run_alone("[.lost]") == 0);  // in another process, which loses the GPU
}

TEST_CASE("a lost device reports the loss at each call", "[.lost]") {
  const auto gpu = require_gpu();
  const StreamHandle stream = gpu->create_stream();
  Operation wild;
  wild.name = "wild";
  wild.views = {{reinterpret_cast<void*>(std::uintptr_t{1} << 12U), 4096, Access::write}};
  gpu->launch(wild, stream);
  CHECK(error_of([&] { gpu->synchronize(stream); }) == ErrorCode::device_lost);
  CHECK(error_of([&] { static_cast<void>(gpu->allocate(1)); }) == ErrorCode::device_lost);
  CHECK(error_of([&] { static_cast<void>(gpu->query(stream)); }) == ErrorCode::device_lost);
  CHECK(error_of([&] { gpu->launch(wild, stream); }) == ErrorCode::device_lost);
}

TEST_CASE("memory may be freed after CUDA has shut down", "[gpu]") {
  static_cast<void>(require_gpu());
  CHECK(run_alone("[.exit]") == 0);
}

namespace {

// Constructed before CUDA starts, so that it is destroyed after CUDA has ended.
struct FreedAtExit {
  std::unique_ptr<CudaDevice> gpu;
  void* memory = nullptr;
  ~FreedAtExit() {
    if (gpu == nullptr) return;
    try {
      gpu->free(memory);
    } catch (const std::exception&) {
      std::_Exit(3);
    }
  }
};
FreedAtExit freed_at_exit;

}  // namespace

TEST_CASE("memory is left to be freed at the end of the process", "[.exit]") {
  freed_at_exit.gpu = require_gpu();
  freed_at_exit.memory = freed_at_exit.gpu->allocate(1 << 20);
  CHECK(freed_at_exit.memory != nullptr);
}
