#include <cuda_runtime_api.h>
#include <rapidcheck.h>

#include <algorithm>

#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

Operation costing(Cost cost) {
  Operation operation;
  operation.name = "costs";
  operation.cost = cost;
  return operation;
}

/// Returns the time from before `operation` to after it, on a stream without other work.
Nanoseconds time_of(CudaDevice& gpu, const Operation& operation) {
  const TestStream stream{gpu};
  const TestEvent begin{gpu, true}, end{gpu, true};
  gpu.record(begin, stream);
  gpu.launch(operation, stream);
  gpu.record(end, stream);
  gpu.synchronize(end);
  return gpu.event_time(end) - gpu.event_time(begin);
}

}  // namespace

TEST_CASE("an operation with only a cost takes at least the time of its cost", "[gpu]") {
  const auto gpu = require_gpu();
  CHECK(time_of(*gpu, costing({.fixed = 3ms})) >= 3ms);
  CHECK(time_of(*gpu, costing({.flops = 2e-3 * gpu->info().flops})) >= 2ms);
  CHECK(time_of(*gpu, costing({.bytes = 2e-3 * gpu->info().memory_bandwidth})) >= 2ms);
  CHECK(time_of(*gpu, costing({.flops = 1e-3 * gpu->info().flops, .fixed = 2ms})) >= 3ms);
}

TEST_CASE("an operation without a cost ends at once", "[gpu]") {
  const auto gpu = require_gpu();
  static_cast<void>(time_of(*gpu, costing({})));  // warm-up: the first launch
  CHECK(time_of(*gpu, costing({})) < 1s);
}

TEST_CASE("launching does not wait for what is launched", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  gpu->launch(hold(500ms), stream);
  gpu->launch(hold(1ms), stream);
  CHECK_FALSE(gpu->query(stream));
  gpu->synchronize(stream);
}

TEST_CASE("operations that take the whole machine take turns", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream first{*gpu}, second{*gpu};
  const TestEvent begin{*gpu, true}, first_end{*gpu, true}, second_end{*gpu, true};
  const Operation busy = costing({.flops = 20e-3 * gpu->info().flops});
  gpu->record(begin, first);
  gpu->wait(second, begin);
  gpu->launch(busy, first);
  gpu->launch(busy, second);
  gpu->record(first_end, first);
  gpu->record(second_end, second);
  gpu->synchronize();
  const Nanoseconds last = std::max(gpu->event_time(first_end), gpu->event_time(second_end));
  CHECK(last - gpu->event_time(begin) >= 39ms);  // a kernel's time begins with its first block
}

TEST_CASE("an operation with a fixed cost runs beside one that takes the machine", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream compute{*gpu}, side{*gpu};
  gpu->launch(costing({.flops = 0.5 * gpu->info().flops}), compute);
  gpu->launch(hold(1ms), side);
  gpu->synchronize(side);
  CHECK_FALSE(gpu->query(compute));
  gpu->synchronize(compute);
}

TEST_CASE("an operation touches only bytes of its views, and does not change what it reads",
          "[gpu][touch]") {
  const auto gpu = require_gpu();
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  const TestStream stream{*gpu};
  const TestMemory memory{*gpu, kBytes};
  CHECK(rc::check("any view", [&] {
    const auto offset = *rc::gen::inRange<std::size_t>(0, kBytes);
    const auto bytes = *rc::gen::inRange<std::size_t>(0, kBytes - offset + 1);
    const Access access = *rc::gen::element(Access::read, Access::write, Access::read_write);
    auto expected = drawn_bytes(kBytes, *rc::gen::arbitrary<std::uint64_t>());
    gpu->copy(memory.at(), expected.data(), kBytes, CopyKind::host_to_device, stream);

    Operation operation = costing({.bytes = 1e-4 * gpu->info().memory_bandwidth});
    operation.views = {{memory.at(offset), bytes, access}};
    gpu->launch(operation, stream);
    auto found = read_back(*gpu, memory.at(), kBytes);
    if (access == Access::write) {  // the kernel writes unspecified bytes
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{});
      std::fill_n(found.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{});
    }
    RC_ASSERT(found == expected);
  }));
}

TEST_CASE("an operation may have more views than a kernel takes", "[gpu][touch]") {
  const auto gpu = require_gpu();
  const TestMemory memory{*gpu, std::size_t{1} << 20};
  Operation operation = costing({.bytes = 3e-3 * gpu->info().memory_bandwidth, .fixed = 1ms});
  for (std::size_t i = 0; i < 777; ++i) {
    operation.views.push_back({memory.at(i * 1024), 1024, Access::read_write});
  }
  CHECK(time_of(*gpu, operation) >= 4ms);
}

TEST_CASE("an operation reads and writes pinned memory", "[gpu][touch]") {
  const auto gpu = require_gpu();
  const TestMemory memory{*gpu, 4096, Where::host};
  std::fill(memory.host().begin(), memory.host().end(), std::byte{9});
  Operation operation = costing({.bytes = 1e-4 * gpu->info().memory_bandwidth});
  operation.views = {{memory.at(1), 4000, Access::read_write}};
  static_cast<void>(time_of(*gpu, operation));
  CHECK(std::count(memory.host().begin(), memory.host().end(), std::byte{9}) == 4096);
}

TEST_CASE("an operation with its own kernel runs that kernel on the stream's handle", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  const TestMemory memory{*gpu, 1, Where::host};
  memory.host()[0] = std::byte{0};
  void* given = nullptr;
  Operation operation;
  operation.cuda = [&](void* native) {
    given = native;
    static_cast<void>(cudaMemsetAsync(memory.at(), 5, 1, static_cast<cudaStream_t>(native)));
  };
  gpu->launch(operation, stream);
  gpu->synchronize(stream);
  CHECK(given == stream.native());
  CHECK(memory.host()[0] == std::byte{5});
}

TEST_CASE("an operation whose kernel cannot be launched fails with its name", "[gpu]") {
  const auto gpu = require_gpu();
  const TestStream stream{*gpu};
  Operation operation;
  operation.name = "lookup_user";
  operation.cuda = [](void* native) {
    static_cast<void>(cudaMemsetAsync(nullptr, 0, 1 << 20, static_cast<cudaStream_t>(native)));
  };
  CHECK_THROWS_WITH(gpu->launch(operation, stream),
                    Catch::Matchers::ContainsSubstring("lookup_user"));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}
