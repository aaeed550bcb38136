#include "interop/tool_notes.hpp"

#include "millrace/config.hpp"

#if MILLRACE_HAS_CUDA && __has_include(<nvtx3/nvToolsExtMem.h>)
#include <nvtx3/nvToolsExtMem.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using Regions = std::map<char*, std::size_t, std::less<>>;

/** The first region that ends after `address`. */
Regions::iterator first_overlap(Regions& regions, char* address) {
  auto next = regions.lower_bound(address);
  if (next == regions.begin()) return next;
  const auto before = std::prev(next);
  return before->first + before->second > address ? before : next;
}

}  // namespace

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

  /** The tool's regions, without the locks and the books below. */
  void add_region(void* address, std::size_t bytes);
  void remove_region(void* address) noexcept;

  const nvtxDomainHandle_t domain = nvtxDomainCreateA("millrace");
  std::mutex mutex;
  std::map<void*, Heap, std::less<>> heaps;
  Regions of_graphs;  ///< with their bytes
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
  nvtxMemHeapUnregister(state_->domain, heap->second.handle);  // its regions as well
  char* const end = static_cast<char*>(base) + heap->second.bytes;
  state_->of_graphs.erase(state_->of_graphs.lower_bound(static_cast<char*>(base)),
                          state_->of_graphs.lower_bound(end));
  state_->heaps.erase(heap);
}

void ToolNotes::State::add_region(void* address, std::size_t bytes) {
  const nvtxMemVirtualRangeDesc_t range{bytes, address};
  nvtxMemRegionsRegisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = heap_of(address);
  batch.regionCount = 1;
  batch.regionDescElementSize = sizeof range;
  batch.regionDescElements = &range;
  nvtxMemRegionsRegister(domain, &batch);
}

void ToolNotes::State::remove_region(void* address) noexcept {
  nvtxMemRegionRef_t reference{};
  reference.pointer = address;
  nvtxMemRegionsUnregisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof batch;
  batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  batch.refCount = 1;
  batch.refElementSize = sizeof reference;
  batch.refElements = &reference;
  nvtxMemRegionsUnregister(domain, &batch);
}

void ToolNotes::handed_out(void* address, std::size_t bytes) {
  {
    // The graph that had this region was destroyed.
    const std::lock_guard lock{state_->mutex};
    auto old = first_overlap(state_->of_graphs, static_cast<char*>(address));
    while (old != state_->of_graphs.end() && old->first < static_cast<char*>(address) + bytes) {
      state_->remove_region(old->first);
      old = state_->of_graphs.erase(old);
    }
  }
  state_->add_region(address, bytes);
}

void ToolNotes::handed_to_graph(void* address, std::size_t bytes) {
  // Bytes of the graphs' earlier requests are regions already. The gaps between them become
  // regions.
  std::vector<std::pair<char*, std::size_t>> gaps;
  {
    const std::lock_guard lock{state_->mutex};
    char* from = static_cast<char*>(address);
    char* const end = from + bytes;
    auto next = first_overlap(state_->of_graphs, from);
    while (from < end) {
      char* const stop = next == state_->of_graphs.end() ? end : std::min(next->first, end);
      if (from < stop) gaps.emplace_back(from, static_cast<std::size_t>(stop - from));
      if (next == state_->of_graphs.end()) break;
      from = next->first + next->second;
      ++next;
    }
    state_->of_graphs.insert(gaps.begin(), gaps.end());
  }
  for (const auto& [start, size] : gaps) state_->add_region(start, size);
}

void ToolNotes::kept_by_graph(void* address, std::size_t bytes) {
  const std::lock_guard lock{state_->mutex};
  state_->of_graphs.emplace(static_cast<char*>(address), bytes);
}

bool ToolNotes::is_kept_by_graph(void* address) {
  const std::lock_guard lock{state_->mutex};
  return state_->of_graphs.contains(static_cast<char*>(address));
}

void ToolNotes::taken_back(void* address) noexcept { state_->remove_region(address); }

}  // namespace millrace

#else

namespace millrace {

struct ToolNotes::State {};

ToolNotes::ToolNotes() = default;
ToolNotes::~ToolNotes() = default;
void ToolNotes::heap_added(void*, std::size_t) {}
void ToolNotes::heap_removed(void*) {}
void ToolNotes::handed_out(void*, std::size_t) {}
void ToolNotes::handed_to_graph(void*, std::size_t) {}
void ToolNotes::kept_by_graph(void*, std::size_t) {}
bool ToolNotes::is_kept_by_graph(void*) { return false; }
void ToolNotes::taken_back(void*) noexcept {}

}  // namespace millrace

#endif
