#pragma once

#include <cstddef>
#include <cstdint>

/**
 * @file
 * The structs that NVTX's memory extension passes to a tool, after its public headers
 * (nvToolsExtMem.h, version 1.2, and nvtxExtTypes.h).
 */
namespace millrace::virtual_cuda::nvtx {

inline constexpr std::uint16_t kMemoryModule = 1;
inline constexpr std::size_t kSegment = 1;
inline constexpr std::uint32_t kVirtualAddress = 1;  ///< the type of a heap or a region
inline constexpr std::uint32_t kSubAllocator = 1;    ///< the usage of a heap

/** Indices in the table of functions that the tool fills in. */
enum class Callback : std::size_t {
  heap_register = 0,
  heap_unregister = 1,
  heap_reset = 2,
  regions_register = 3,
  regions_unregister = 5
};

struct Segment {
  std::size_t id;
  std::size_t slots;
  std::intptr_t* functions;
};
struct Module {
  std::uint16_t version;
  std::uint16_t bytes;
  std::uint16_t module;
  std::uint16_t compatibility;
  std::size_t segments;
  Segment* segment;
  std::intptr_t (*exports)(std::uint32_t);
  const void* information;
};

struct Range {
  std::size_t bytes;
  const void* address;
};
struct Heap {
  std::uint16_t compatibility;
  std::uint16_t bytes;
  std::uint32_t reserved;
  std::uint32_t usage;
  std::uint32_t type;
  std::size_t description_bytes;
  const Range* description;
};
struct Regions {
  std::uint16_t compatibility;
  std::uint16_t bytes;
  std::uint32_t type;
  void* heap;
  std::size_t count;
  std::size_t element_bytes;
  const void* elements;
  const void** handles;
};
struct References {
  std::uint16_t compatibility;
  std::uint16_t bytes;
  std::uint32_t type;
  std::size_t count;
  std::size_t element_bytes;
  const void* elements;
};

}  // namespace millrace::virtual_cuda::nvtx
