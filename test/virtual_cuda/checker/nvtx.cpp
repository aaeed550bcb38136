// A sub-allocator that annotates its memory with NVTX's own header. NVTX loads the library that
// CMake names.

#include <nvtx3/nvToolsExtMem.h>

#include "test/virtual_cuda/checker/scene.hpp"

using namespace millrace::test;
using kernels::launch_write;

namespace {

/** Regions of one allocation, as a program's allocator would have them. */
class Arena {
 public:
  Arena() : domain_{nvtxDomainCreateA("arena")} {
    const nvtxMemVirtualRangeDesc_t range{block_.bytes(), block_.get()};
    nvtxMemHeapDesc_t heap{};
    heap.extCompatID = NVTX_EXT_COMPATID_MEM;
    heap.structSize = sizeof heap;
    heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    heap.typeSpecificDescSize = sizeof range;
    heap.typeSpecificDesc = &range;
    heap_ = nvtxMemHeapRegister(domain_, &heap);
  }
  ~Arena() { nvtxMemHeapUnregister(domain_, heap_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int* take(std::size_t offset) {
    const nvtxMemVirtualRangeDesc_t range{kBytes, block_.get() + offset};
    nvtxMemRegionsRegisterBatch_t batch{};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = heap_;
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof range;
    batch.regionDescElements = &range;
    nvtxMemRegionsRegister(domain_, &batch);
    return reinterpret_cast<int*>(block_.get() + offset);
  }
  void give(const int* region) {
    nvtxMemRegionRef_t reference{};
    reference.pointer = region;
    nvtxMemRegionsUnregisterBatch_t batch{};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    batch.refCount = 1;
    batch.refElementSize = sizeof reference;
    batch.refElements = &reference;
    nvtxMemRegionsUnregister(domain_, &batch);
  }

 private:
  DeviceBlock block_{16 * kBytes};
  nvtxDomainHandle_t domain_;
  nvtxMemHeapHandle_t heap_ = nullptr;
};

}  // namespace

TEST_CASE("the checker follows regions that an allocator annotates with NVTX", "[nvtx]") {
  const Stream first, second;
  const Event event;
  const Races races;
  Arena arena;
  int* const region = arena.take(kBytes);
  int* const other = arena.take(2 * kBytes);
  launch_write(region, first);
  launch_write(other, second);
  CHECK(races.count() == 0);
  arena.give(region);
  SECTION("a region that another stream uses next needs an event") {
    launch_write(arena.take(kBytes), second);
    REQUIRE(races.count() == 1);
    CHECK(Races::last().kind == "early reuse");
  }
  SECTION("a region that another stream uses after an event is in order") {
    CUDA_OK(cudaEventRecord(event, first));
    CUDA_OK(cudaStreamWaitEvent(second, event, 0));
    launch_write(arena.take(kBytes), second);
    CHECK(races.count() == 0);
    launch_write(other + kBytes / sizeof(int), second);  // outside of any region
    CHECK(races.count() == 1);
  }
  SECTION("a use of a region after its release is found") {
    launch_write(region, first);
    REQUIRE(races.count() == 1);
    CHECK(Races::last().kind == "use after free");
  }
  CUDA_OK(cudaDeviceSynchronize());
}
