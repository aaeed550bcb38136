#include <cuda_runtime_api.h>

#include <atomic>
#include <stdexcept>

#include "millrace/device/ordered_device.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a callback runs after the work before it and before the work after it", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestMemory memory{*gpu, 1, Where::host};
  memory.host()[0] = std::byte{0};
  std::byte seen{};
  gpu->fill(memory.at(), 1, 1, stream);
  gpu->callback(stream, [&] { seen = memory.host()[0]; });
  gpu->fill(memory.at(), 2, 1, stream);
  gpu->synchronize(stream);
  CHECK(seen == std::byte{1});
  CHECK(memory.host()[0] == std::byte{2});
}

TEST_CASE("a callback can tell that it runs in a callback", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  std::atomic<bool> inside{false};
  gpu->callback(stream, [&] { inside = in_host_callback(); });
  gpu->synchronize(stream);
  CHECK(inside);
  CHECK_FALSE(in_host_callback());
}

namespace {

struct CallbackLog final : DeviceObserver {
  void callback_enqueued(StreamHandle, std::uint64_t serial) override { enqueued = serial; }
  void callback_started(StreamHandle, std::uint64_t serial) override { started = serial; }
  void callback_ended(StreamHandle, std::uint64_t serial) override { ended = serial; }
  std::atomic<std::uint64_t> enqueued{0}, started{0}, ended{0};
};

}  // namespace

TEST_CASE("observers are called when a callback starts and when it has ended", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  CallbackLog log;
  gpu->add_observer(log);
  {
    HostGate gate{*gpu, stream};
    CHECK(log.enqueued > 0);
    CHECK(log.ended == 0);
  }
  gpu->synchronize(stream);
  CHECK(log.started == log.enqueued);
  CHECK(log.ended == log.enqueued);
  gpu->remove_observer(log);
}

TEST_CASE("a callback that throws loses the device, and later errors have its message", "[gpu]") {
  auto gpu = require_gpu();
  const StreamHandle stream = gpu->create_stream();
  gpu->callback(stream, [] { throw std::runtime_error{"the slot is gone"}; });
  try {
    gpu->synchronize(stream);
  } catch (const DeviceError&) {  // thrown if the callback has run already
  }
  CHECK_THROWS_WITH(gpu->query(stream), ContainsSubstring("the slot is gone"));
  CHECK_THROWS_WITH(gpu->allocate(1), ContainsSubstring("device lost"));
  static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream.value)));
}

TEST_CASE("a stream in capture refuses a callback, and the capture continues", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const cudaStream_t native = stream.native();
  REQUIRE(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK_THROWS_WITH(gpu->callback(stream, [] {}), ContainsSubstring("graph"));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(native, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("a device call in a callback is refused, also where CUDA would allow it", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  std::atomic<ErrorCode> code{ErrorCode::unknown};
  gpu->callback(stream, [&] {
    try {
      static_cast<void>(gpu->memory_info());
    } catch (const DeviceError& error) {
      code = error.code();
    }
  });
  gpu->synchronize(stream);
  CHECK(code == ErrorCode::not_supported);
}

TEST_CASE("a device that is destroyed waits for callbacks that have not run yet", "[gpu]") {
  auto gpu = require_gpu();
  const StreamHandle stream = gpu->create_stream();
  std::atomic<bool> ran{false};
  gpu->launch(hold(std::chrono::milliseconds{50}), stream);
  gpu->callback(stream, [&] { ran = true; });
  gpu.reset();
  CHECK(ran);
  CHECK(cudaStreamDestroy(static_cast<cudaStream_t>(stream.value)) == cudaSuccess);
}
