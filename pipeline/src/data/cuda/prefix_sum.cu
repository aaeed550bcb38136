#include <cstdint>
#include <cub/device/device_scan.cuh>

#include "data/cuda/kernels.hpp"
#include "millrace/device/cuda_calls.hpp"

namespace millrace::cuda {
namespace {

template <typename Index>
void launch(const PrefixSum& sum, cudaStream_t stream) {
  const auto* const lengths = static_cast<const Index*>(sum.lengths);
  auto* const offsets = static_cast<Index*>(sum.offsets);
  check_cuda(cudaMemsetAsync(offsets, 0, sizeof(Index), stream), "prefix_sum: first offset");
  if (sum.count == 0) return;
  std::size_t scratch_bytes = prefix_sum_scratch(sum.count);
  check_cuda(cub::DeviceScan::InclusiveSum(sum.scratch, scratch_bytes, lengths, offsets + 1,
                                           static_cast<std::int64_t>(sum.count), stream),
             "prefix_sum");
}

}  // namespace

Launch prefix_sum(const PrefixSum& sum) {
  return [sum](void* native_stream) {
    const auto stream = static_cast<cudaStream_t>(native_stream);
    if (sum.type == IndexType::int32) {
      launch<std::int32_t>(sum, stream);
    } else {
      launch<std::int64_t>(sum, stream);
    }
  };
}

}  // namespace millrace::cuda
