#include <cuda_runtime_api.h>

#include <map>
#include <random>

#include "device/cuda/vmm.hpp"
#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;

/// Returns the devices that may use a page.
std::set<long long> users(const std::byte* page) {
  std::set<long long> found;
  for (const fake::Call& call : fake::calls("cuMemSetAccess")) {
    if (call.object == reinterpret_cast<std::uintptr_t>(page)) found.insert(call.value);
  }
  return found;
}

}  // namespace

TEST_CASE("only the device itself may use its memory until it allows a peer") {
  const auto gpu = stand_in(0);
  const std::size_t page = gpu->page_bytes();
  auto* const range = static_cast<std::byte*>(gpu->reserve_range(4 * page));
  gpu->map(range, page);
  CHECK(users(range) == std::set<long long>{0});
  CHECK(fake::contexts() == std::set{0});

  gpu->allow_peer(1);
  CHECK(users(range) == std::set<long long>{0, 1});
  gpu->map(range + page, page);
  CHECK(users(range + page) == std::set<long long>{0, 1});
  const auto enabled = fake::calls("cudaDeviceEnablePeerAccess");
  REQUIRE(enabled.size() == 1);
  CHECK(enabled[0].object == 1);  // a property of the peer's context,
  CHECK(enabled[0].value == 0);   // for this device
  REQUIRE(fake::calls("cudaMemPoolSetAccess").size() == 1);
  CHECK(fake::calls("cudaMemPoolSetAccess")[0].value == 1);
  gpu->unmap(range, 2 * page);
  gpu->release_range(range, 4 * page);
}

TEST_CASE("allowing a peer twice, or allowing the device itself, is no error") {
  const auto gpu = stand_in(0);
  gpu->allow_peer(1);
  fake::fail("cudaDeviceEnablePeerAccess", 704);  // already enabled
  CHECK_NOTHROW(gpu->allow_peer(1));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_NOTHROW(gpu->allow_peer(0));
}

TEST_CASE("an allowed peer may use exactly the pages that are mapped") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 20; ++round) {
    fake::reset();
    cuda::VirtualMemory memory{0};
    std::byte* const range = memory.reserve(16 * kPage);
    std::set<std::byte*> mapped;
    for (int i = 0; i < 30; ++i) {
      std::byte* const at = range + random() % 16 * kPage;
      if (mapped.erase(at) > 0) {
        memory.unmap(at, kPage);
      } else {
        memory.fill(at, kPage);
        mapped.insert(at);
      }
    }
    const std::size_t before = fake::calls("cuMemSetAccess").size();
    memory.allow_peer(1);
    std::set<std::uintptr_t> allowed, expected;
    const auto calls = fake::calls("cuMemSetAccess");
    for (std::size_t i = before; i < calls.size(); ++i) {
      CHECK(calls[i].value == 1);
      allowed.insert(calls[i].object);
    }
    for (std::byte* const page : mapped) expected.insert(reinterpret_cast<std::uintptr_t>(page));
    CHECK(allowed == expected);
    memory.free(range, 16 * kPage);
  }
}

// The cost of a mapping is per handle: 16 MiB in one handle cost an eighth of handles of 2 MiB.
TEST_CASE("a range is mapped with one handle for each of the device's pages") {
  const auto gpu = stand_in(0);
  const std::size_t page = gpu->page_bytes();
  CHECK(page == gpu->info().memory_bytes / 1024);  // of 8 GiB
  CHECK(page > gpu->info().page_bytes);
  void* const range = gpu->reserve_range(6 * page);
  gpu->map(range, 5 * page);
  const auto created = fake::calls("cuMemCreate");
  const auto mapped = fake::calls("cuMemMap");
  REQUIRE(created.size() == 5);
  REQUIRE(mapped.size() == 5);
  for (std::size_t i = 0; i < mapped.size(); ++i) {
    CHECK(created[i].value == static_cast<long long>(page));
    CHECK(mapped[i].object == reinterpret_cast<std::uintptr_t>(range) + i * page);
    CHECK(mapped[i].value == static_cast<long long>(page));
  }
  gpu->unmap(range, 5 * page);
  gpu->release_range(range, 6 * page);
}
