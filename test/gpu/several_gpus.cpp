#include <dlfcn.h>

#include <cstdlib>

#include "device/cuda/driver.hpp"
#include "test/gpu/gpu_bench.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

void require_two_gpus() {
  const CudaDeviceCount devices = cuda_device_count();
  if (devices.count < 2) SKIP("needs two GPUs");
}

void require_peers() {
  require_two_gpus();
  if (!cuda_peer_access(1, 0)) SKIP("needs GPUs that can use each other's memory");
}

/// Returns whether the GPU's primary context is active.
bool has_context(int ordinal) {
  using GetState = CUresult (*)(CUdevice, unsigned*, int*);
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto state = reinterpret_cast<GetState>(dlsym(library, "cuDevicePrimaryCtxGetState"));
  REQUIRE(state != nullptr);
  CUdevice gpu{};
  REQUIRE(cuda::driver().cuDeviceGet(&gpu, ordinal) == CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 0;
  REQUIRE(state(gpu, &flags, &active) == CUDA_SUCCESS);
  return active != 0;
}

Operation write_to(void* address, std::size_t bytes) {
  Operation operation;
  operation.name = "write to a peer";
  operation.views = {{address, bytes, Access::write}};
  return operation;
}

}  // namespace

// Since CUDA 12, cudaSetDevice makes a context, which takes hundreds of MiB of that GPU.
TEST_CASE("training on the second GPU makes no context on the first", "[gpu][two]") {
  require_two_gpus();
  const int code = run_alone("[.second]");  // other test cases use the first GPU
  if (code == 4) SKIP("needs cuBLAS");
  CHECK(code == 0);
}

TEST_CASE("a process trains on the second GPU", "[.second]") {
  setenv("MILLRACE_GPU", "1", 1);
  GpuBench bench;
  REQUIRE(bench.gpu->ordinal() == 1);
  bench.require_blas();
  train_small_model(bench.context, bench.memory, bench.main, OptimizerKind::adam);
  CHECK(has_context(1));
  CHECK_FALSE(has_context(0));
}

TEST_CASE("a kernel of a GPU that was not allowed as a peer loses its device", "[gpu][two]") {
  require_peers();
  CHECK(run_alone("[.stranger]") == 0);  // the process cannot use the GPU afterwards
}

TEST_CASE("a kernel touches memory of a GPU that did not allow it", "[.stranger]") {
  const auto owner = CudaDevice::create(0), peer = CudaDevice::create(1);
  void* const memory = owner->allocate(4096);  // not TestMemory: a lost GPU frees nothing
  const StreamHandle stream = peer->create_stream();
  peer->launch(write_to(memory, 4096), stream);
  CHECK(error_of([&] { peer->synchronize(stream); }) == ErrorCode::device_lost);
}

TEST_CASE("an allowed peer can access memory of every kind", "[gpu][two]") {
  require_peers();
  const auto owner = CudaDevice::create(0), peer = CudaDevice::create(1);
  const TestStream own{*owner}, others{*peer};
  const auto reached = [&](void* address, std::size_t bytes) {
    owner->synchronize();
    peer->launch(write_to(address, bytes), others);
    peer->synchronize(others);  // throws if not
  };
  const TestMemory before{*owner, 4096};
  owner->allow_peer(1);
  const TestMemory after{*owner, 4096};
  CHECK_NOTHROW(reached(before.at(), before.bytes()));
  CHECK_NOTHROW(reached(after.at(), after.bytes()));

  if (owner->has_driver_pool()) {
    void* const pooled = owner->allocate_async(4096, own);
    CHECK_NOTHROW(reached(pooled, 4096));
    owner->free_async(pooled, own);
  }
  owner->synchronize();
}

TEST_CASE("an allowed peer can access pages mapped before and after it was allowed", "[gpu][two]") {
  require_peers();
  const auto owner = CudaDevice::create(0), peer = CudaDevice::create(1);
  const std::size_t page = owner->page_bytes();
  if (page == 0) SKIP("needs a GPU that maps memory (cuMemMap)");
  auto* const range = static_cast<std::byte*>(owner->reserve_range(2 * page));
  owner->map(range, page);
  owner->allow_peer(1);
  owner->map(range + page, page);
  {
    const TestStream stream{*peer};
    peer->launch(write_to(range, 2 * page), stream);
    CHECK_NOTHROW(peer->synchronize(stream));
  }
  owner->unmap(range, 2 * page);
  owner->release_range(range, 2 * page);
}
