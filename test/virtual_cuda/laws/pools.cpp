#include <cstdint>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

cudaMemPool_t make_pool() {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 0;
  cudaMemPool_t pool = nullptr;
  CUDA_OK(cudaMemPoolCreate(&pool, &properties));
  std::uint64_t keep = ~std::uint64_t{0};
  CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  return pool;
}

}  // namespace

TEST_CASE("memory freed on a stream serves that stream at once") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool();
  void* const first = take(pool, 1 << 20, stream);
  CUDA_OK(cudaMemsetAsync(first, 1, 1 << 20, stream));
  CUDA_OK(cudaFreeAsync(first, stream));
  CHECK(take(pool, 1 << 20, stream) == first);
  CUDA_OK(cudaFreeAsync(first, stream));
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("another stream gets freed memory once the free is done or an event orders it") {
  const Stream owner;
  const Stream other;
  const Event event;
  const cudaMemPool_t pool = make_pool();
  constexpr std::size_t kBytes = 32 << 20;
  void* const first = take(pool, kBytes, owner);
  for (int i = 0; i < 4; ++i) CUDA_OK(cudaMemsetAsync(first, i, kBytes, owner));
  CUDA_OK(cudaFreeAsync(first, owner));
  SECTION("before the free is done") {
    void* const second = take(pool, kBytes, other);
    CHECK((second != first) == deferred());
    CUDA_OK(cudaFreeAsync(second, other));
  }
  SECTION("after the free is done") {
    CUDA_OK(cudaStreamSynchronize(owner));
    CHECK(take(pool, kBytes, other) == first);
    CUDA_OK(cudaFreeAsync(first, other));
  }
  SECTION("after an event orders it") {
    CUDA_OK(cudaEventRecord(event, owner));
    CUDA_OK(cudaStreamWaitEvent(other, event, 0));
    CHECK(take(pool, kBytes, other) == first);
    CUDA_OK(cudaFreeAsync(first, other));
  }
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("a pool counts used and reserved bytes, and a trim to 0 returns all of them") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool();
  void* const address = take(pool, 3 << 20, stream);
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 3 << 20);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= 3 << 20);
  CUDA_OK(cudaFreeAsync(address, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 3 << 20);
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= 3 << 20);  // below the threshold
  CUDA_OK(cudaMemPoolTrimTo(pool, 0));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("a trim keeps at least the requested bytes") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool();
  CUDA_OK(cudaFreeAsync(take(pool, 3 << 20, stream), stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  for (const std::size_t keep : {std::size_t{3} << 20, std::size_t{10240}, std::size_t{1}}) {
    CUDA_OK(cudaMemPoolTrimTo(pool, keep));
    CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= keep);
  }
  CUDA_OK(cudaMemPoolTrimTo(pool, 0));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("a synchronization releases pool memory above the release threshold") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool();
  std::uint64_t none = 0;
  CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &none));
  CUDA_OK(cudaFreeAsync(take(pool, 3 << 20, stream), stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("blocks of a pool that are in use do not overlap") {
  const Stream stream;
  const cudaMemPool_t pool = make_pool();
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t bytes = 512 + 5000 * (i % 7);
    auto* const address = static_cast<unsigned char*>(take(pool, bytes, stream));
    blocks.emplace_back(address, bytes);
    CUDA_OK(cudaMemsetAsync(address, static_cast<int>(i), bytes, stream));
    if (i % 3 != 2) continue;
    CUDA_OK(cudaFreeAsync(blocks[i / 2].first, stream));
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(i / 2));
    i = i < 60 ? i : 60;
    if (blocks.size() > 20) break;
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  for (const auto& [address, bytes] : blocks) {
    const std::vector<unsigned char> found = read(address, bytes);
    CHECK(found == all(bytes, found.front()));
    CUDA_OK(cudaFreeAsync(address, stream));
  }
  CUDA_OK(cudaMemPoolDestroy(pool));
}

TEST_CASE("the default pool is the current pool until another is set") {
  cudaMemPool_t usual = nullptr;
  cudaMemPool_t current = nullptr;
  CUDA_OK(cudaDeviceGetDefaultMemPool(&usual, 0));
  CUDA_OK(cudaDeviceGetMemPool(&current, 0));
  CHECK(usual == current);
  const cudaMemPool_t pool = make_pool();
  CUDA_OK(cudaDeviceSetMemPool(0, pool));
  const Stream stream;
  void* address = nullptr;
  CUDA_OK(cudaMallocAsync(&address, 512, stream));
  CHECK(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 512);
  CUDA_OK(cudaFreeAsync(address, stream));
  CUDA_OK(cudaDeviceSetMemPool(0, usual));
  CUDA_OK(cudaMemPoolDestroy(pool));
  CHECK(cudaMemPoolDestroy(usual) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}
