// Copies and fills that leave their allocation, and some that only seem to.

#include <cstdint>

#include "test/virtual_cuda/checker/scene.hpp"
#include "test/virtual_cuda/laws/driver.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace millrace::test;

namespace {

void is_named(const Races& races, const char* what) {
  REQUIRE(races.count() == 1);
  CHECK(Races::last().kind == "out of bounds");
  CHECK_THAT(Races::last().message, ContainsSubstring(what));
}

/** Pages that a program maps next to each other, with access. */
class Mappings {
 public:
  explicit Mappings(std::size_t count) : count_{count} {
    CUmemAllocationProp properties{};
    properties.type = static_cast<decltype(properties.type)>(1);                    // pinned
    properties.location.type = static_cast<decltype(properties.location.type)>(1);  // on a GPU
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = static_cast<decltype(access.flags)>(3);
    DRIVER_OK("cuMemAddressReserve", &range_, count_ * kPage, std::size_t{0}, CUdeviceptr{0}, 0ULL);
    for (std::size_t i = 0; i < count_; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      DRIVER_OK("cuMemCreate", &handle, kPage, &properties, 0ULL);
      DRIVER_OK("cuMemMap", range_ + i * kPage, kPage, std::size_t{0}, handle, 0ULL);
      DRIVER_OK("cuMemRelease", handle);
    }
    DRIVER_OK("cuMemSetAccess", range_, count_ * kPage, &access, std::size_t{1});
  }
  ~Mappings() {
    CHECK(driver("cuMemUnmap", range_, count_ * kPage) == 0);
    CHECK(driver("cuMemAddressFree", range_, count_ * kPage) == 0);
  }
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;
  [[nodiscard]] unsigned char* get() const { return reinterpret_cast<unsigned char*>(range_); }

  static constexpr std::size_t kPage = std::size_t{2} << 20;

 private:
  std::size_t count_;
  CUdeviceptr range_ = 0;
};

}  // namespace

TEST_CASE("a fill beyond its allocation is named with the allocation and the excess", "[bounds]") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const Races races;
  CUDA_OK(cudaMemsetAsync(block.get() + 96, 1, kBytes - 96, stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaMemsetAsync(block.get() + 96, 1, 10 * kBytes, stream));
  is_named(races,
           " writes bytes 96 to 41056 of an allocation of 4096 bytes, 36960 bytes beyond its end: "
           "cudaMalloc at test_virtual_cuda_checker+0x");
  CHECK_THAT(Races::last().message,
             ContainsSubstring("cudaMemsetAsync at test_virtual_cuda_checker+0x"));
}

TEST_CASE("both ends of a copy have bounds", "[bounds]") {
  const Stream stream;
  const DeviceBlock block{kBytes}, large{2 * kBytes};
  const PinnedBlock pinned{kBytes};
  std::vector<unsigned char> pageable(2 * kBytes);
  const Races races;
  SECTION("a copy that reads beyond its source is named") {
    CUDA_OK(cudaMemcpyAsync(large.get(), block.get(), kBytes + 1, cudaMemcpyDefault, stream));
    is_named(races, " reads bytes 0 to 4097 of an allocation of 4096 bytes, 1 byte beyond");
  }
  SECTION("a copy that writes beyond its target is named") {
    CUDA_OK(cudaMemcpyAsync(block.get(), pageable.data(), 2 * kBytes, cudaMemcpyDefault, stream));
    is_named(races, " writes bytes 0 to 8192 of an allocation of 4096 bytes, 4096 bytes beyond");
  }
  SECTION("a copy that reads beyond pinned memory is named") {
    CUDA_OK(cudaMemcpyAsync(large.get(), pinned.get() + 1, kBytes, cudaMemcpyDefault, stream));
    is_named(races, " reads bytes 1 to 4097 of an allocation of 4096 bytes, 1 byte beyond");
  }
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("memory of a pool and of a graph has bounds", "[bounds]") {
  const Stream stream;
  void* block = nullptr;
  const Races races;
  SECTION("memory of a pool") {
    CUDA_OK(cudaMallocAsync(&block, 1000, stream));
    CUDA_OK(cudaMemsetAsync(block, 0, 1001, stream));
    is_named(races, "1 byte beyond its end: cudaMallocAsync at ");
    CUDA_OK(cudaFreeAsync(block, stream));
  }
  SECTION("memory of a graph, at its launch") {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(cudaMallocAsync(&block, 1000, stream));
    CUDA_OK(cudaMemsetAsync(block, 0, 1001, stream));
    CUDA_OK(cudaFreeAsync(block, stream));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(races.count() == 0);
    CUDA_OK(cudaGraphLaunch(executable, stream));
    is_named(races, "1 byte beyond its end: cudaGraphLaunch of an allocation at ");
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
  }
}

TEST_CASE("rows end with the bytes of the last row, not with its pitch", "[bounds]") {
  const Stream stream;
  const DeviceBlock block{3 * 64 + 32};
  const Races races;
  CUDA_OK(cudaMemset2DAsync(block.get(), 64, 1, 32, 4, stream));
  CUDA_OK(cudaMemset2DAsync(block.get() + 16, 64, 1, 16, 4, stream));
  CHECK(races.count() == 0);
  SECTION("rows beyond the end are named once") {
    CUDA_OK(cudaMemset2DAsync(block.get(), 64, 1, 32, 40, stream));
    is_named(races, "bytes 0 to 2528 of an allocation of 224 bytes, 2304 bytes beyond its end");
  }
  SECTION("one byte beyond the end in the last row is named") {
    CUDA_OK(cudaMemset2DAsync(block.get() + 16, 64, 1, 17, 4, stream));
    is_named(races, "1 byte beyond its end");
  }
}

TEST_CASE("each row of pitched memory has the bytes of its pitch", "[bounds]") {
  const Stream stream;
  void* address = nullptr;
  std::size_t pitch = 0;
  CUDA_OK(cudaMallocPitch(&address, &pitch, 100, 3));
  const Races races;
  CUDA_OK(cudaMemset2DAsync(address, pitch, 0, pitch, 3, stream));
  cudaPitchedPtr box{};
  CUDA_OK(cudaMalloc3D(&box, {100, 3, 2}));
  CUDA_OK(cudaMemset3DAsync(box, 0, {100, 3, 2}, stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaMemset3DAsync(box, 0, {100, 3, 3}, stream));
  CHECK(races.count() == 1);
  CUDA_OK(cudaFree(address));
  CUDA_OK(cudaFree(box.ptr));
}

TEST_CASE("a fill may continue in an adjacent mapping", "[bounds]") {
  const Stream stream;
  const Mappings pages{3};
  constexpr std::size_t kPage = Mappings::kPage;
  const Races races;
  CUDA_OK(cudaMemsetAsync(pages.get() + 5, 0, 3 * kPage - 5, stream));
  CUDA_OK(cudaMemset2DAsync(pages.get() + kPage - 8, kPage, 0, 16, 2, stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("a copy may read beyond a registered range of host memory", "[bounds]") {
  const Stream stream;
  const DeviceBlock block{4 * kBytes};
  std::vector<unsigned char> memory(4 * kBytes);
  CUDA_OK(cudaHostRegister(memory.data(), kBytes, cudaHostRegisterDefault));
  const Races races;
  CUDA_OK(cudaMemcpyAsync(block.get(), memory.data(), memory.size(), cudaMemcpyDefault, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaHostUnregister(memory.data()));
}

TEST_CASE("memory of a program's own sub-allocator has bounds", "[bounds]") {
  const Stream stream;
  const DeviceBlock arena{kBytes};
  const Races races;
  virtual_cuda().allocated(arena.get(), 1000, stream);
  virtual_cuda().allocated(arena.get() + 1024, 1000, stream);
  CUDA_OK(cudaMemsetAsync(arena.get(), 0, 1000, stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaMemsetAsync(arena.get(), 0, 1025, stream));
  is_named(races,
           "bytes 0 to 1025 of an allocation of 1000 bytes, 25 bytes beyond its end: "
           "sub-allocation at test_virtual_cuda_checker+0x");
}

TEST_CASE("memory beyond an allocation is reported once, and not as a race", "[bounds]") {
  const Stream first, second;
  const DeviceBlock arena{kBytes};
  const Races races;
  virtual_cuda().allocated(arena.get(), 1024, first);
  virtual_cuda().allocated(arena.get() + 1024, 1024, second);
  CUDA_OK(cudaMemsetAsync(arena.get() + 1024, 0, 1024, second));
  CUDA_OK(cudaMemsetAsync(arena.get(), 0, 2048, first));
  is_named(races, "1024 bytes beyond its end");
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("an access to memory of a GPU that is not allocated is named", "[bounds]") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const Races races;
  CUDA_OK(cudaMemsetAsync(block.get() + (std::size_t{64} << 20), 0, 16, stream));
  is_named(races, " writes 16 bytes of a GPU's memory that is not allocated");
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("a use after a free is not reported as an access out of bounds", "[bounds]") {
  const Stream stream;
  void* freed = nullptr;
  CUDA_OK(cudaMalloc(&freed, kBytes));
  CUDA_OK(cudaFree(freed));
  const Races races;
  CUDA_OK(cudaMemsetAsync(freed, 0, kBytes, stream));
  CHECK(races.count() == 1);
  CHECK(Races::last().kind == "use after free");
}
