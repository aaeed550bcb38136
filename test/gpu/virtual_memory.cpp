#include "device/cuda/vmm.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

struct Mapping {
  explicit Mapping(CudaDevice& device, std::size_t count)
      : gpu(device),
        memory(device.ordinal()),
        bytes(count * memory.page_bytes()),
        range(memory.reserve(bytes)) {}
  ~Mapping() { memory.free(range, bytes); }

  void map(std::size_t page, cuda::PhysicalPage physical) {
    memory.map(range + page * memory.page_bytes(), physical);
    memory.allow(range + page * memory.page_bytes(), memory.page_bytes());
  }
  void unmap(std::size_t page) {
    memory.unmap(range + page * memory.page_bytes(), memory.page_bytes());
  }
  void fill(std::size_t page, unsigned char value) {
    gpu.fill(range + page * memory.page_bytes(), value, memory.page_bytes(), gpu.legacy_stream());
  }
  std::byte first_byte(std::size_t page) {
    return read_back(gpu, range + page * memory.page_bytes(), 1).front();
  }

  CudaDevice& gpu;
  cuda::VirtualMemory memory;
  std::size_t bytes;
  std::byte* range;
};

std::unique_ptr<CudaDevice> require_mapping() {
  auto gpu = require_gpu();
  if (!gpu->info().virtual_memory) SKIP("needs a GPU that maps memory (cuMemMap)");
  return gpu;
}

}  // namespace

TEST_CASE("a page is 2 MiB, and a range is aligned to it", "[gpu][touch]") {
  const auto gpu = require_mapping();
  const Mapping mapping{*gpu, 3};
  CHECK(mapping.memory.page_bytes() == std::size_t{2} << 20);
  CHECK(reinterpret_cast<std::uintptr_t>(mapping.range) % mapping.memory.page_bytes() == 0);
}

TEST_CASE("a range grows by a page without moving", "[gpu][touch]") {
  const auto gpu = require_mapping();
  Mapping mapping{*gpu, 2};
  const auto first = mapping.memory.create();
  mapping.map(0, first);
  mapping.fill(0, 1);
  const auto second = mapping.memory.create();
  mapping.map(1, second);
  mapping.fill(1, 2);
  CHECK(mapping.first_byte(0) == std::byte{1});
  CHECK(mapping.first_byte(1) == std::byte{2});
  gpu->synchronize();
  mapping.unmap(0);
  mapping.unmap(1);
  mapping.memory.release(first);
  mapping.memory.release(second);
}

TEST_CASE("a page that is mapped at another address keeps its bytes", "[gpu][touch]") {
  const auto gpu = require_mapping();
  Mapping from{*gpu, 1}, to{*gpu, 4};
  const auto page = from.memory.create();
  from.map(0, page);
  from.fill(0, 77);
  gpu->synchronize();
  from.unmap(0);
  to.map(3, page);
  CHECK(to.first_byte(3) == std::byte{77});
  gpu->synchronize();
  to.unmap(3);
  to.memory.release(page);
}

TEST_CASE("pages that are mapped at two addresses are the same memory, in stream order",
          "[gpu][touch]") {
  const auto gpu = require_mapping();
  REQUIRE(gpu->can_alias());
  const std::size_t page = gpu->page_bytes();
  const StreamHandle stream = gpu->create_stream();
  auto* const range = static_cast<std::byte*>(gpu->reserve_range(4 * page));
  gpu->map(range, 2 * page);
  gpu->fill(range, 7, 2 * page, stream);
  gpu->alias(range + 2 * page, range, 2 * page);
  gpu->fill(range + 3 * page, 9, page, stream);
  gpu->synchronize(stream);
  CHECK(read_back(*gpu, range + 2 * page, 1).front() == std::byte{7});
  CHECK(read_back(*gpu, range + page, 1).front() == std::byte{9});
  gpu->unmap(range, 2 * page);
  CHECK(read_back(*gpu, range + 2 * page, 1).front() == std::byte{7});
  CHECK(read_back(*gpu, range + 3 * page, 1).front() == std::byte{9});
  gpu->unmap(range + 2 * page, 2 * page);
  gpu->release_range(range, 4 * page);
  gpu->destroy_stream(stream);
}

TEST_CASE("pages of one handle each can be unmapped one by one, and all at once", "[gpu][touch]") {
  const auto gpu = require_mapping();
  Mapping mapping{*gpu, 3};
  std::vector<cuda::PhysicalPage> pages;
  for (std::size_t i = 0; i < 3; ++i) mapping.map(i, pages.emplace_back(mapping.memory.create()));
  mapping.fill(2, 3);
  gpu->synchronize();
  mapping.unmap(1);
  CHECK(mapping.first_byte(2) == std::byte{3});
  mapping.map(1, pages[1]);
  gpu->synchronize();
  mapping.memory.unmap(mapping.range, mapping.bytes);
  for (const auto page : pages) mapping.memory.release(page);
}

TEST_CASE("half a mapping cannot be unmapped", "[gpu][touch]") {
  const auto gpu = require_mapping();
  Mapping mapping{*gpu, 1};
  const auto page = mapping.memory.create();
  mapping.map(0, page);
  CHECK_THROWS_AS(mapping.memory.unmap(mapping.range, mapping.memory.page_bytes() / 2),
                  DeviceError);
  mapping.unmap(0);
  mapping.memory.release(page);
}
