// Code that is compiled for per-thread default streams, as nvcc --default-stream per-thread does.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1

#include "millrace.h"
#include "test/interop/bench.hpp"

namespace millrace::test {

TEST_CASE("a null stream of code that is compiled for per-thread streams is the thread's own") {
  CHECK(plain_stream(nullptr) == StreamHandle{reinterpret_cast<void*>(2)});
  CHECK(millrace_stream_here(nullptr) == reinterpret_cast<CUstream_st*>(2));
  DropInBench bench;
  auto* const named = static_cast<CUstream_st*>(bench.gpu.create_stream().value);
  CHECK(plain_stream(named) == StreamHandle{named});
  const DefaultMemoryScope scope{bench.memory};
  const std::uint64_t looked_up = bench.gpu.calls(Call::stream_id);
  void* const block = bench.memory.allocate(MiB, static_cast<CUstream_st*>(nullptr));
  CHECK(bench.gpu.calls(Call::stream_id) > looked_up);
  const auto owner = bench.memory.caching().owner(block);
  REQUIRE(owner.has_value());
  CHECK(owner->handle() == bench.gpu.per_thread_stream());
  millrace_free(block, 0, 0, nullptr);
  CHECK(bench.memory.statistics().live_blocks == 0);
}

}  // namespace millrace::test
