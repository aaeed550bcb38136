// DeviceMemory objects, and the default memories of a program.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <thread>

#include "millrace/config.hpp"
#include "test/interop/bench.hpp"

namespace millrace::test {
namespace {

// In this file a null stream is the default stream that the file was compiled for.
static_assert(sizeof(StreamHandle) == sizeof(CUstream_st*));

CUstream_st* handle(std::uintptr_t value) { return reinterpret_cast<CUstream_st*>(value); }

}  // namespace

TEST_CASE("both handles of the legacy stream mean the same stream") {
  CHECK(plain_stream(handle(0)) == StreamHandle{});
  CHECK(plain_stream(handle(1)) == StreamHandle{});
  CHECK(plain_stream(handle(2)) == StreamHandle{handle(2)});
}

TEST_CASE("a null stream is accepted, and a request of no bytes gives a null pointer") {
  DropInBench bench;
  void* const block = bench.allocate(MiB, nullptr);
  CHECK(block != nullptr);
  bench.free(block, static_cast<CUstream_st*>(nullptr));
  CHECK(bench.memory.allocate(0, nullptr) == nullptr);
  bench.memory.deallocate(nullptr);
  bench.memory.deallocate(nullptr, static_cast<CUstream_st*>(nullptr));
}

TEST_CASE("buffers and arrays of a plain stream free themselves") {
  DropInBench bench;
  CUstream_st* const stream = bench.create_stream();
  {
    const Buffer buffer = bench.memory.buffer(3 * MiB, stream);
    const Array<double> array = bench.memory.array<double>(1000, stream);
    CHECK(buffer.size() == 3 * MiB);
    CHECK(array.size() == 1000);
    CHECK(bench.memory.statistics().live_blocks == 2);
    CHECK(bench.memory.statistics().bytes.requested.current == 3 * MiB + 8000);
  }
  CHECK(bench.memory.statistics().live_blocks == 0);
}

TEST_CASE("an array that is larger than the address space is refused") {
  DropInBench bench;
  CUstream_st* const stream = bench.create_stream();
  const std::size_t wraps =
      std::numeric_limits<std::size_t>::max() / sizeof(double) + 2;  // wraps to 8 bytes
  CHECK_THROWS_AS(bench.memory.array<double>(wraps, stream), std::length_error);
  CHECK_THROWS_AS(bench.memory.array<double>(wraps / 4, stream), out_of_memory);
  CHECK(bench.memory.statistics().live_blocks == 0);
}

TEST_CASE("memory that another stream uses first is allocated in one call") {
  const std::uint64_t seed = GENERATE(range(1, 5));
  DropInBench bench{adversarial(seed)};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  void* const batch = bench.memory.allocate(4 * MiB, main, copy);
  bench.checking.allocated(batch, 4 * MiB, bench.gpu, {copy});
  bench.work(batch, 4 * MiB, copy);
  bench.free(batch);  // after the work of both streams
  void* const next = bench.allocate(4 * MiB, main);
  bench.work(next, 4 * MiB, main);
  bench.check_order();
}

TEST_CASE("limits, tags, peaks and trims act on the inner allocator") {
  DropInBench bench;
  CUstream_st* const stream = bench.create_stream();
  bench.memory.caching().set_limit(64 * MiB);
  CHECK_THROWS_AS(bench.memory.allocate(100 * MiB, stream), out_of_memory);
  const ScopeId scope = bench.memory.open_scope();
  void* const block = bench.memory.allocate(32 * MiB, stream, bench.memory.tag("activations"));
  CHECK(bench.memory.statistics().tags.back().name == "activations");
  bench.memory.deallocate(block, stream);
  CHECK(bench.memory.peaks(scope).requested.peak == 32 * MiB);
  bench.memory.close_scope(scope);
  bench.gpu.synchronize();
  CHECK(bench.memory.trim() >= 32 * MiB);
  CHECK(bench.reserved() == 0);
}

TEST_CASE("the innermost scope of a thread determines its default memory") {
  DropInBench outer;
  DropInBench inner;
  DeviceMemory second{outer.gpu, 1, {}};
  const DefaultMemoryScope of_second{second};
  const DefaultMemoryScope of_outer{outer.memory};
  CHECK(&default_memory(0) == &outer.memory);
  {
    const DefaultMemoryScope of_inner{inner.memory};
    CHECK(&default_memory(0) == &inner.memory);
    CHECK(&default_memory(1) == &second);
    const DeviceMemory* seen = nullptr;
    std::thread{[&] {
      try {
        seen = &default_memory(0);
      } catch (const DeviceError&) {  // no GPU, and this thread has no scope
      }
    }}.join();
    CHECK(seen != &inner.memory);
  }
  CHECK(&default_memory(0) == &outer.memory);
}

#if !MILLRACE_HAS_CUDA
TEST_CASE("in a build without CUDA, the error of a memory object says so") {
  CHECK_THROWS_WITH(DeviceMemory{0}, Catch::Matchers::ContainsSubstring("this build has no CUDA"));
}
#endif

TEST_CASE("a forked child is refused memory, and may free memory and end") {
  DropInBench bench;
  CUstream_st* const stream = bench.create_stream();
  const pid_t child = fork();
  if (child == 0) {
    int wrong = 0;
    try {
      static_cast<void>(bench.memory.allocate(MiB, stream));
      wrong = 1;
    } catch (const DeviceError& error) {
      if (error.code() != ErrorCode::device_lost) wrong = 2;
    }
    const auto is_refused = [](const auto& call) {
      try {
        call();
        return false;
      } catch (const DeviceError& error) {
        return error.code() == ErrorCode::device_lost;
      }
    };
    if (!is_refused([&] { static_cast<void>(bench.memory.snapshot()); })) wrong = 3;
    if (!is_refused([&] { bench.memory.annotate("step"); })) wrong = 4;
    if (!is_refused([&] { bench.memory.observe(nullptr); })) wrong = 5;
    if (!is_refused([&] { bench.memory.record_history({.allocations = 10}); })) wrong = 6;
    bench.memory.deallocate(&bench, stream);
    bench.memory.deallocate(&bench);
    { const DeviceMemory moved_from_nothing{bench.gpu, 3, {}}; }  // the child can make its own
    bench.memory.~DeviceMemory();
    _exit(wrong);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  bench.free(bench.allocate(MiB, stream));
}

}  // namespace millrace::test
