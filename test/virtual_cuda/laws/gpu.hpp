#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "millrace/virtual_cuda.h"
#include "test/support/catch.hpp"
#include "test/virtual_cuda/cuda.hpp"

#define CUDA_OK(...) REQUIRE((__VA_ARGS__) == cudaSuccess)

namespace millrace::test {

/// True if the laws run on the virtual runtime. A run on NVIDIA's runtime sets MILLRACE_LAWS_OF
/// (tools/gpu-cases.py), so that a mistake in the virtual runtime cannot skip a law.
inline bool is_virtual() {
  const char* const asked = std::getenv("MILLRACE_LAWS_OF");
  return asked == nullptr || asked != std::string_view{"nvidia"};
}

/// Skips a law that NVIDIA's runtime cannot be tested for.
inline void only_virtual(const char* reason) {
  if (!is_virtual()) SKIP(reason);
}

/// Skips a law on a machine with one GPU. The virtual machine has as many GPUs as its tests set.
inline void needs_two_gpus() {
  int count = 0;
  CUDA_OK(cudaGetDeviceCount(&count));
  if (!is_virtual() && count < 2) SKIP("it needs two GPUs");
}

/// True if work takes effect after its call.
inline bool deferred() {
  const char* const schedule = std::getenv("MILLRACE_VIRTUAL");
  return schedule != nullptr && !std::string_view{schedule}.starts_with("instant");
}

inline const MillraceVirtualCuda& virtual_cuda() {
  only_virtual("it uses a table that only the virtual runtime has");
  static const void* const table = [] {  // host functions use it, and they cannot call CUDA
    const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
    const void* found = nullptr;
    CUDA_OK(cudaGetExportTable(&found, &id));
    return found;
  }();
  return *static_cast<const MillraceVirtualCuda*>(table);
}

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    CUDA_OK(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: as a handle

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    CUDA_OK(cudaEventCreateWithFlags(&event_, flags));
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: as a handle

 private:
  cudaEvent_t event_ = nullptr;
};

/// Device memory, or pinned host memory.
template <bool kPinned>
class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_{bytes} {
    if constexpr (kPinned) {
      CUDA_OK(cudaHostAlloc(&address_, bytes, cudaHostAllocDefault));
    } else {
      CUDA_OK(cudaMalloc(&address_, bytes));
    }
  }
  ~Block() {
    if constexpr (kPinned) {
      cudaFreeHost(address_);
    } else {
      cudaFree(address_);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  [[nodiscard]] unsigned char* get() const { return static_cast<unsigned char*>(address_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  unsigned char& operator[](std::size_t i) const { return get()[i]; }

 private:
  void* address_ = nullptr;
  std::size_t bytes_;
};
using DeviceBlock = Block<false>;
using PinnedBlock = Block<true>;

/// A multiple of every unit in which NVIDIA's driver counts memory: cudaMalloc takes 2 MiB, and a
/// graph takes 32 MiB.
inline constexpr std::size_t kUnit = std::size_t{32} << 20;

inline std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&free, &total));
  return free;
}

inline std::uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  std::uint64_t value = 0;
  CUDA_OK(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

inline unsigned char* take(cudaMemPool_t pool, std::size_t bytes, cudaStream_t stream) {
  void* address = nullptr;
  CUDA_OK(cudaMallocFromPoolAsync(&address, bytes, pool, stream));
  return static_cast<unsigned char*>(address);
}

/// True if two amounts of free memory are the same. On an H200, 2 MiB were missing after the first
/// graph had allocated memory, so a GPU may miss up to 4 MiB.
inline bool same_memory(std::size_t one, std::size_t other) {
  const std::size_t tolerated = is_virtual() ? 0 : std::size_t{4} << 20;
  return std::max(one, other) - std::min(one, other) <= tolerated;
}

inline std::vector<unsigned char> read(const void* address, std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  CUDA_OK(cudaMemcpy(data.data(), address, bytes, cudaMemcpyDeviceToHost));
  return data;
}
inline std::vector<unsigned char> read(const DeviceBlock& block) {
  return read(block.get(), block.bytes());
}
inline std::vector<unsigned char> all(std::size_t bytes, unsigned char value) {
  return std::vector<unsigned char>(bytes, value);
}

inline cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}
inline std::size_t count_nodes(cudaGraph_t graph) {
  std::size_t count = 0;
  CUDA_OK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

}  // namespace millrace::test
