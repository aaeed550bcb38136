#include "interop/tool_notes.hpp"

#include "millrace/config.hpp"

#if MILLRACE_HAS_CUDA && __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>

#include <functional>
#include <map>
#include <mutex>

namespace millrace {

struct ToolNotes::State {
  struct Heap {
    std::size_t bytes;
    nvtxMemHeapHandle_t handle;
  };

  /** The heap of an address; the process's if no segment was reported. */
  [[nodiscard]] nvtxMemHeapHandle_t heap_of(void* address) {
    const std::lock_guard lock{mutex};
    auto after = heaps.upper_bound(address);
    if (after == heaps.begin()) return NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE;
    const auto& [base, heap] = *--after;
    const auto offset =
        static_cast<std::size_t>(static_cast<char*>(address) - static_cast<char*>(base));
    return offset < heap.bytes ? heap.handle : NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE;
  }

  const nvtxDomainHandle_t domain = nvtxDomainCreateA("millrace");
  std::mutex mutex;
  std::map<void*, Heap, std::less<>> heaps;
};

ToolNotes::ToolNotes() : state_(std::make_unique<State>()) {}
ToolNotes::~ToolNotes() = default;

void ToolNotes::heap_added(void* base, std::size_t bytes) {
  const nvtxMemVirtualRangeDesc_t range{bytes, base};
  nvtxMemHeapDesc_t heap{};
  heap.extCompatID = NVTX_EXT_COMPATID_MEM;
  heap.structSize = sizeof heap;
  heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  heap.typeSpecificDescSize = sizeof range;
  heap.typeSpecificDesc = &range;
  const nvtxMemHeapHandle_t handle = nvtxMemHeapRegister(state_->domain, &heap);
  const std::lock_guard lock{state_->mutex};
  state_->heaps[base] = {bytes, handle};
}

void ToolNotes::heap_removed(void* base) {
  const std::lock_guard lock{state_->mutex};
  const auto heap = state_->heaps.find(base);
  if (heap == state_->heaps.end()) return;
  nvtxMemHeapUnregister(state_->domain, heap->second.handle);
  state_->heaps.erase(heap);
}

void ToolNotes::handed_out(void* address, std::size_t bytes) {
  const nvtxMemVirtualRangeDesc_t range{bytes, address};
  nvtxMemRegionsRegisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = state_->heap_of(address);
  batch.regionCount = 1;
  batch.regionDescElementSize = sizeof range;
  batch.regionDescElements = &range;
  nvtxMemRegionsRegister(state_->domain, &batch);
}

void ToolNotes::taken_back(void* address) noexcept {
  nvtxMemRegionRef_t reference{};
  reference.pointer = address;
  nvtxMemRegionsUnregisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  batch.refCount = 1;
  batch.refElementSize = sizeof reference;
  batch.refElements = &reference;
  nvtxMemRegionsUnregister(state_->domain, &batch);
}

}  // namespace millrace

#else

namespace millrace {

struct ToolNotes::State {};

ToolNotes::ToolNotes() = default;
ToolNotes::~ToolNotes() = default;
void ToolNotes::heap_added(void*, std::size_t) {}
void ToolNotes::heap_removed(void*) {}
void ToolNotes::handed_out(void*, std::size_t) {}
void ToolNotes::taken_back(void*) noexcept {}

}  // namespace millrace

#endif
