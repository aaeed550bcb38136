#include <cuda_runtime.h>

#include <span>

#include "data/cuda/copy_segments.cu"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::cuda {
namespace {

std::span<DeviceSegment> each_of(SegmentTable& table) { return table.segments; }

}  // namespace
}  // namespace millrace::cuda

namespace millrace::test::virtual_kernels {

namespace {

// CUB's parameters: (in, out, tile_state, start_tile, operation, initial, count)
template <typename Index>
void inclusive_sum(const MillraceLaunch* launch) {
  const auto* const in = argument<const Index*>(*launch, 0);
  auto* const out = argument<Index*>(*launch, 1);
  const auto count = argument<unsigned long long>(*launch, 6);
  Index sum = 0;
  for (unsigned long long i = 0; i < count; ++i) out[i] = sum += in[i];
}

/** @param index  the type of offsets, as c++filt prints it */
template <typename Index>
[[nodiscard]] Row prefix_sum(const std::string& index) {
  return {.pattern =
              "*DeviceScanKernel<*>(" + index + " const*, " + index + "*, *, unsigned long long)",
          .argument_bytes = {sizeof(void*), sizeof(void*), 0, 0, 0, 0, sizeof(unsigned long long)},
          .run = inclusive_sum<Index>};
}

}  // namespace

void add_rows_of_data(std::vector<Row>& rows) {
  rows.push_back(own<millrace::cuda::copy_segments_kernel>());
  rows.push_back(prefix_sum<std::int32_t>("int"));
  rows.push_back(prefix_sum<std::int64_t>("long"));
  rows.push_back({.pattern = "*DeviceScanInitKernel<*", .run = [](const MillraceLaunch*) {}});
}

}  // namespace millrace::test::virtual_kernels
