#include <algorithm>

#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

std::unique_ptr<CudaDevice> require_pool() {
  auto gpu = require_gpu();
  if (!gpu->has_driver_pool()) SKIP("needs a GPU with cudaMallocAsync");
  return gpu;
}

}  // namespace

TEST_CASE("memory of the pool is usable by later work on its stream", "[gpu][touch]") {
  const auto gpu = require_pool();
  const TestStream stream{*gpu};
  const TestMemory host{*gpu, kBytes, Where::host};
  void* const memory = gpu->allocate_async(kBytes, stream);
  gpu->fill(memory, 0x3C, kBytes, stream);
  gpu->copy(host.at(), memory, kBytes, CopyKind::device_to_host, stream);
  gpu->free_async(memory, stream);
  gpu->synchronize(stream);
  CHECK(std::count(host.host().begin(), host.host().end(), std::byte{0x3C}) ==
        static_cast<std::ptrdiff_t>(kBytes));
}

TEST_CASE("the pool reports used and reserved bytes, and a trim gives back unused ones", "[gpu]") {
  const auto gpu = require_pool();
  const TestStream stream{*gpu};
  CHECK(gpu->pool_info().used == 0);
  void* const memory = gpu->allocate_async(kBytes, stream);
  CHECK(gpu->pool_info().used >= kBytes);
  CHECK(gpu->pool_info().reserved >= gpu->pool_info().used);
  gpu->free_async(memory, stream);
  gpu->synchronize(stream);
  CHECK(gpu->pool_info().used == 0);
  CHECK(gpu->pool_info().used_high >= kBytes);
  gpu->trim_pool(0);
  CHECK(gpu->pool_info().reserved == 0);
}

TEST_CASE("a pool with a threshold keeps its memory over a synchronization", "[gpu]") {
  static_cast<void>(require_pool());
  CudaDevice::Options options;
  options.pool.release_threshold = ~std::size_t{0};
  const auto gpu = CudaDevice::create(0, options);
  const TestStream stream{*gpu};
  gpu->free_async(gpu->allocate_async(kBytes, stream), stream);
  gpu->synchronize();
  CHECK(gpu->pool_info().reserved >= kBytes);
}

TEST_CASE("two devices of one GPU have separate pools", "[gpu]") {
  const auto gpu = require_pool(), other = require_pool();
  const TestStream stream{*gpu};
  void* const memory = gpu->allocate_async(kBytes, stream);
  CHECK(other->pool_info().used == 0);
  gpu->free_async(memory, stream);
  gpu->synchronize();
}
