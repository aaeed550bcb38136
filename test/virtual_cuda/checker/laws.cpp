#include <thread>

#include "test/virtual_cuda/checker/scene.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace millrace::test;
using kernels::launch_read;
using kernels::launch_write;

namespace {

int* ints(const DeviceBlock& block) { return reinterpret_cast<int*>(block.get()); }

struct PoolBlock {
  PoolBlock(std::size_t bytes, cudaStream_t stream) {
    CUDA_OK(cudaMallocAsync(&address, bytes, stream));
  }
  [[nodiscard]] int* get() const { return static_cast<int*>(address); }
  void* address = nullptr;
};

}  // namespace

TEST_CASE("an unordered read after a write is named with both calls and the missing edge",
          "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, first));
  std::vector<unsigned char> data(kBytes);
  CUDA_OK(cudaMemcpyAsync(data.data(), block.get(), kBytes, cudaMemcpyDeviceToHost, second));
  CHECK(races.count() == 1);
  const Race race = Races::last();
  CHECK(race.kind == "read after write");
  CHECK_THAT(race.message, ContainsSubstring("cudaMemsetAsync at test_virtual_cuda_checker+0x"));
  CHECK_THAT(race.message, ContainsSubstring("cudaMemcpyAsync at test_virtual_cuda_checker+0x"));
  CHECK_THAT(race.message, ContainsSubstring(": record on "));
  CHECK_THAT(race.message, ContainsSubstring(", wait on "));
  CHECK_THAT(race.message, ContainsSubstring("bytes 0 to 4096 of the 4096 bytes of cudaMalloc at"));
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("an event orders what was enqueued before its record and nothing later", "[laws]") {
  const Stream first, second;
  const Event event;
  const DeviceBlock block{kBytes};
  const Races races;
  launch_write(ints(block), first);
  CUDA_OK(cudaEventRecord(event, first));
  CUDA_OK(cudaStreamWaitEvent(second, event, 0));
  launch_write(ints(block), second);
  CHECK(races.count() == 0);
  launch_write(ints(block), first);
  CHECK(races.count() == 1);
}

TEST_CASE("a race of two places is named once and counted each time", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  const std::size_t before = named_races();
  for (int i = 0; i < 3; ++i) {
    CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, first));
    CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, second));
    CUDA_OK(cudaDeviceSynchronize());
  }
  CHECK(races.count() == 3);
  CHECK(named_races() == before + 1);
}

TEST_CASE("two kernels that read the same memory need no order", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes}, one{kBytes}, two{kBytes};
  const Races races;
  launch_read(ints(one), ints(block), first);
  launch_read(ints(two), ints(block), second);
  CHECK(races.count() == 0);
  launch_write(ints(block), second);
  CHECK(races.count() == 1);
  CHECK(Races::last().kind == "write after read");
  CHECK_THAT(Races::last().message, ContainsSubstring("of kernel read_and_write at "));
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("a kernel accesses no bytes before the pointer that it is given", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  launch_write(ints(block) + kBytes / 8, first);
  CUDA_OK(cudaMemsetAsync(block.get(), 0, kBytes / 2, second));
  CHECK(races.count() == 0);
  CUDA_OK(cudaMemsetAsync(block.get(), 0, kBytes / 2 + 1, second));
  CHECK(races.count() == 1);
}

TEST_CASE("a kernel accesses its allocation up to the end", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  launch_write(ints(block), first);
  CUDA_OK(cudaMemsetAsync(block.get() + kBytes - 1, 0, 1, second));
  CHECK(races.count() == 1);
}

TEST_CASE("rows that are copied do not touch the bytes between them", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  CUDA_OK(cudaMemset2DAsync(block.get(), 64, 1, 32, 4, first));
  CUDA_OK(cudaMemset2DAsync(block.get() + 32, 64, 1, 32, 4, second));
  CHECK(races.count() == 0);
  CUDA_OK(cudaMemset2DAsync(block.get() + 31, 64, 1, 2, 4, second));
  CHECK(races.count() == 1);  // one race of two operations, whatever the number of rows
}

TEST_CASE("a use of pool memory before its allocation or after its free is found", "[laws]") {
  const Stream first, second;
  const Event event;
  const Races races;
  PoolBlock block{kBytes, first};
  launch_write(block.get(), first);
  SECTION("on another stream that is not ordered before the free") {
    CUDA_OK(cudaEventRecord(event, first));
    CUDA_OK(cudaStreamWaitEvent(second, event, 0));
    launch_write(block.get(), second);
    CHECK(races.count() == 0);
    CUDA_OK(cudaFreeAsync(block.address, first));
    CHECK(races.count() == 1);
    CHECK(Races::last().kind == "use after free");
  }
  SECTION("by a later call on the same stream") {
    CUDA_OK(cudaFreeAsync(block.address, first));
    CUDA_OK(cudaMemsetAsync(block.address, 0, 16, first));
    CHECK(races.count() == 1);
    CHECK(Races::last().kind == "use after free");
    CHECK_THAT(Races::last().message, ContainsSubstring("cudaFreeAsync at "));
  }
  SECTION("before its allocation") {
    launch_write(block.get(), second);
    CHECK(races.count() > 0);
    CUDA_OK(cudaFreeAsync(block.address, first));
  }
  SECTION("reuse by the pool for another stream is not a race") {
    CUDA_OK(cudaFreeAsync(block.address, first));
    CUDA_OK(cudaStreamSynchronize(first));
    PoolBlock next{kBytes, second};
    launch_write(next.get(), second);
    CUDA_OK(cudaFreeAsync(next.address, second));
    CHECK(races.count() == 0);
  }
}

TEST_CASE("reuse by a sub-allocator before the last access is found", "[laws]") {
  const Stream first, second;
  const Event event;
  const DeviceBlock arena{16 * kBytes};
  const DeviceBlock other{kBytes};
  const Races races;
  const MillraceVirtualCuda& check = virtual_cuda();
  int* const block = ints(arena) + 1024;
  check.allocated(block, kBytes, first);
  launch_write(block, first);
  check.freed(block);
  SECTION("reuse by the same stream is in order") {
    check.allocated(block, kBytes, first);
    launch_write(block, first);
    CHECK(races.count() == 0);
  }
  SECTION("reuse by another stream needs an event") {
    check.allocated(block, kBytes, second);
    CHECK(races.count() == 1);
    CHECK(Races::last().kind == "early reuse");
    CHECK_THAT(Races::last().message, ContainsSubstring("kernel write at "));
  }
  SECTION("reuse by another stream after an event is in order") {
    CUDA_OK(cudaEventRecord(event, first));
    CUDA_OK(cudaStreamWaitEvent(second, event, 0));
    check.allocated(block, kBytes, second);
    launch_write(block, second);
    CHECK(races.count() == 0);
  }
  SECTION("a use after the free is found") {
    launch_write(block, first);
    CHECK(races.count() == 1);
    CHECK(Races::last().kind == "use after free");
  }
  SECTION("memory that is allocated twice is found") {
    check.allocated(block, kBytes, first);
    check.allocated(block + 4, 64, first);
    CHECK(races.count() == 1);
    CHECK(Races::last().kind == "overlap");
  }
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("host code that writes pinned memory has to wait for the copy", "[laws]") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const PinnedBlock pinned{kBytes};
  const Races races;
  host_writes(pinned.get(), kBytes);
  CUDA_OK(cudaMemcpyAsync(block.get(), pinned.get(), kBytes, cudaMemcpyHostToDevice, stream));
  SECTION("without a synchronization it is a race") {
    host_writes(pinned.get(), kBytes);
    CHECK(races.count() == 1);
    CHECK(Races::last().kind == "write after read");
    CHECK_THAT(Races::last().message, ContainsSubstring("synchronize thread host with it"));
  }
  SECTION("after a synchronization it is in order") {
    CUDA_OK(cudaStreamSynchronize(stream));
    host_writes(pinned.get(), kBytes);
    CHECK(races.count() == 0);
  }
}

TEST_CASE("accesses to pinned memory are forgotten when it is freed", "[laws]") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const Races races;
  void* pinned = nullptr;
  CUDA_OK(cudaMallocHost(&pinned, kBytes));
  CUDA_OK(cudaMemcpyAsync(block.get(), pinned, kBytes, cudaMemcpyHostToDevice, stream));
  CUDA_OK(cudaFreeHost(pinned));
  host_writes(pinned, kBytes);  // malloc may have given it to anyone
  CHECK(races.count() == 0);
}

TEST_CASE("sub-allocations of pinned memory are forgotten when it is freed", "[laws]") {
  const Stream stream;
  const Races races;
  void* pinned = nullptr;
  CUDA_OK(cudaMallocHost(&pinned, kBytes));
  virtual_cuda().allocated(pinned, 256, MILLRACE_NO_STREAM);
  host_writes(pinned, 256);
  CUDA_OK(cudaFreeHost(pinned));
  host_writes(pinned, kBytes);
  CHECK(races.count() == 0);
}

TEST_CASE("accesses of a host function are in the order of its stream", "[laws]") {
  const Stream first, second;
  const PinnedBlock pinned{kBytes};
  const DeviceBlock block{kBytes};
  const Races races;
  const auto fill = [](void* data) { host_writes(data, kBytes); };
  CUDA_OK(cudaLaunchHostFunc(first, fill, pinned.get()));
  SECTION("later work on the stream comes after it") {
    CUDA_OK(cudaMemcpyAsync(block.get(), pinned.get(), kBytes, cudaMemcpyHostToDevice, first));
    CUDA_OK(cudaStreamSynchronize(first));
    CHECK(races.count() == 0);
  }
  SECTION("work on another stream is not ordered after it") {
    CUDA_OK(cudaMemcpyAsync(block.get(), pinned.get(), kBytes, cudaMemcpyHostToDevice, second));
    CUDA_OK(cudaDeviceSynchronize());
    // Calls that are made after the end of the host function count as ordered after it.
    CHECK(races.count() <= 1);
    if (!deferred()) return;
    REQUIRE(races.count() == 1);
    CHECK_THAT(Races::last().message, ContainsSubstring("callback"));
  }
}

TEST_CASE("the legacy stream orders blocking streams and no non-blocking streams", "[laws]") {
  const Stream blocking{cudaStreamDefault}, other{cudaStreamNonBlocking};
  const DeviceBlock block{kBytes};
  const Races races;
  launch_write(ints(block), blocking);
  launch_write(ints(block), nullptr);
  launch_write(ints(block), blocking);
  CHECK(races.count() == 0);
  launch_write(ints(block), other);
  CHECK(races.count() == 1);
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("a captured graph has exactly the captured edges", "[laws]") {
  const Stream first, second;
  const Event fork, join;
  const DeviceBlock one{kBytes}, two{kBytes};
  const bool races_inside = GENERATE(false, true);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CUDA_OK(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  launch_write(ints(one), first);
  CUDA_OK(cudaEventRecord(fork, first));
  CUDA_OK(cudaStreamWaitEvent(second, fork, 0));
  launch_write(races_inside ? ints(one) : ints(two), second);
  launch_write(ints(one), first);
  CUDA_OK(cudaEventRecord(join, second));
  CUDA_OK(cudaStreamWaitEvent(first, join, 0));
  CUDA_OK(cudaStreamEndCapture(first, &graph));
  CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
  const Races races;
  CUDA_OK(cudaGraphLaunch(executable, first));
  CHECK(races.count() == (races_inside ? 1 : 0));
  const std::size_t inside = races.count();

  // Launches of the graph are ordered with each other and with the work of their streams.
  launch_write(ints(two), first);
  CUDA_OK(cudaGraphLaunch(executable, first));
  CHECK(races.count() == 2 * inside);
  launch_write(ints(two), second);
  CHECK(races.count() > 2 * inside);
  CUDA_OK(cudaDeviceSynchronize());
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("calls of several threads count as ordered in the order of the calls", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  std::thread{[&] {
    launch_write(ints(block), first);
    CUDA_OK(cudaStreamSynchronize(first));
  }}.join();
  launch_write(ints(block), second);
  CHECK(races.count() == 0);
}

TEST_CASE("cudaFree orders earlier work before it, and a later use is found", "[laws]") {
  const Stream first;
  const DeviceBlock block{kBytes};
  void* freed = nullptr;
  CUDA_OK(cudaMalloc(&freed, kBytes));
  const Races races;
  launch_write(static_cast<int*>(freed), first);
  CUDA_OK(cudaFree(freed));  // it waits for the device
  CHECK(races.count() == 0);
  CUDA_OK(cudaMemsetAsync(freed, 0, 1, first));
  CHECK(races.count() == 1);
  CHECK(Races::last().kind == "use after free");
}
