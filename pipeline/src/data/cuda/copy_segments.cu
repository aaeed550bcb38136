#include <algorithm>
#include <cstdint>
#include <utility>

#include "data/cuda/kernels.hpp"
#include "millrace/device/cuda_calls.hpp"

namespace millrace::cuda {
namespace {

constexpr unsigned kSegmentsOfALaunch = 160;
constexpr unsigned kThreads = 256;
constexpr std::size_t kBytesOfABlock = kThreads * sizeof(uint4) * 8;
constexpr std::size_t kBlocksOfALaunch = 8192;

struct SegmentTable {
  DeviceSegment segments[kSegmentsOfALaunch];
};
static_assert(sizeof(SegmentTable) <= 4096, "what a kernel of any architecture can be given");

template <typename Word>
__device__ void copy_words(const std::byte* from, std::byte* to, std::size_t bytes) {
  const auto* const source = reinterpret_cast<const Word*>(from);
  auto* const target = reinterpret_cast<Word*>(to);
  const std::size_t count = bytes / sizeof(Word);
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    target[i] = source[i];
  }
}

__device__ std::size_t misalignment(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(uint4);
}

// Copies words of 16 bytes if source and destination have the same alignment, and words of 4 bytes
// at the ends and otherwise.
__global__ void __launch_bounds__(kThreads)
    copy_segments_kernel(const __grid_constant__ SegmentTable table) {
  const DeviceSegment segment = table.segments[blockIdx.y];
  const std::size_t past = misalignment(segment.from);
  if (past != misalignment(segment.to)) {
    copy_words<std::uint32_t>(segment.from, segment.to, segment.bytes);
    return;
  }
  const std::size_t head = min((sizeof(uint4) - past) % sizeof(uint4), segment.bytes);
  const std::size_t body = (segment.bytes - head) / sizeof(uint4) * sizeof(uint4);
  copy_words<std::uint32_t>(segment.from, segment.to, head);
  copy_words<uint4>(segment.from + head, segment.to + head, body);
  copy_words<std::uint32_t>(segment.from + head + body, segment.to + head + body,
                            segment.bytes - head - body);
}

void launch_some(const DeviceSegment* first, unsigned count, cudaStream_t stream) {
  SegmentTable table{};
  std::copy_n(first, count, table.segments);
  std::size_t longest = 0;
  for (unsigned i = 0; i < count; ++i) longest = std::max(longest, first[i].bytes);
  const std::size_t blocks = std::clamp<std::size_t>(
      (longest + kBytesOfABlock - 1) / kBytesOfABlock, 1, kBlocksOfALaunch / count);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks), count);
  config.blockDim = kThreads;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, copy_segments_kernel, table), "copy_segments");
}

}  // namespace

Launch copy_segments(std::vector<DeviceSegment> segments) {
  return [segments = std::move(segments)](void* native_stream) {
    for (std::size_t next = 0; next < segments.size(); next += kSegmentsOfALaunch) {
      const std::size_t count = std::min<std::size_t>(kSegmentsOfALaunch, segments.size() - next);
      launch_some(segments.data() + next, static_cast<unsigned>(count),
                  static_cast<cudaStream_t>(native_stream));
    }
  };
}

}  // namespace millrace::cuda
