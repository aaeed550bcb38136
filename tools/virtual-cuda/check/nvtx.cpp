// Receives annotations of sub-allocators that use NVTX. A program's copy of NVTX loads the library
// that NVTX_INJECTION64_PATH names, and looks up the functions below.

#include "check/nvtx.hpp"

#include <cstring>

#include "check/annotations.hpp"

namespace millrace::virtual_cuda::nvtx {
namespace {

/** Calls `use` with each element of an array. Elements of another version may be larger. */
template <typename Element, typename Use>
void for_each(const void* elements, std::size_t bytes, std::size_t count, Use use) {
  if (elements == nullptr || bytes < sizeof(Element)) return;
  for (std::size_t i = 0; i < count; ++i) {
    Element element{};
    std::memcpy(&element, static_cast<const std::byte*>(elements) + i * bytes, sizeof element);
    use(i, element);
  }
}

// A heap's handle is its address.
void* register_heap(const void*, const Heap* heap) {
  if (heap == nullptr || heap->bytes < sizeof(Heap) || heap->type != kVirtualAddress ||
      heap->usage != kSubAllocator || heap->description == nullptr ||
      heap->description_bytes < sizeof(Range))
    return nullptr;
  annotations::heap(heap->description->address, heap->description->bytes);
  return const_cast<void*>(heap->description->address);
}

void reset_heap(const void*, const void* heap) { annotations::heap_reset(heap); }

void register_regions(const void*, const Regions* regions) {
  if (regions == nullptr || regions->bytes < sizeof(Regions) || regions->type != kVirtualAddress)
    return;
  for_each<Range>(regions->elements, regions->element_bytes, regions->count,
                  [&](std::size_t i, const Range& region) {
                    annotations::region(region.address, region.bytes);
                    if (regions->handles != nullptr) regions->handles[i] = region.address;
                  });
}

// A reference is an address or a handle. A handle has the value of the address.
void unregister_regions(const void*, const References* regions) {
  if (regions == nullptr || regions->bytes < sizeof(References)) return;
  for_each<const void*>(regions->elements, regions->element_bytes, regions->count,
                        [](std::size_t, const void* const& region) { annotations::freed(region); });
}

}  // namespace
}  // namespace millrace::virtual_cuda::nvtx

using namespace millrace::virtual_cuda;

/** @return 0 if the functions of this module do nothing */
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtx::Module* module) {
  if (module == nullptr || module->bytes < sizeof(nvtx::Module) ||
      module->module != nvtx::kMemoryModule || module->segments == 0 || !annotations::wanted())
    return 0;
  const nvtx::Segment& segment = module->segment[0];
  const auto set = [&](nvtx::Callback callback, auto* function) {
    const auto place = static_cast<std::size_t>(callback);
    if (place < segment.slots) segment.functions[place] = reinterpret_cast<std::intptr_t>(function);
  };
  if (segment.id != nvtx::kSegment) return 0;
  set(nvtx::Callback::heap_register, nvtx::register_heap);
  set(nvtx::Callback::heap_unregister, nvtx::reset_heap);
  set(nvtx::Callback::heap_reset, nvtx::reset_heap);
  set(nvtx::Callback::regions_register, nvtx::register_regions);
  set(nvtx::Callback::regions_unregister, nvtx::unregister_regions);
  return 1;
}

/** NVTX's other functions do nothing. */
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void*) {
  return 0;
}
