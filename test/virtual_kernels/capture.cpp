#include <cuda_runtime.h>

#include "capture/cuda/dirty_rows.cu"
#include "capture/cuda/drain_slot.cu"
#include "capture/cuda/gather_rows.cu"
#include "capture/host/kernels.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace capture;
namespace code = capture::cuda;
namespace host = capture::host;

namespace {

void mark_bits(const DirtyView& dirty, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t bit = first; bit <= last; ++bit)
    host::set_bit(dirty.bits, dirty.counts[0], bit);
}

}  // namespace

void add_rows_of_capture(std::vector<Row>& rows) {
  rows.push_back(twin<code::mark_range_kernel, mark_bits>());
  rows.push_back(own<code::drain_slot_kernel>());
  for_types<std::uint32_t, std::uint64_t>([&]<typename Key>() {
    rows.push_back(twin<code::mark_rows_kernel<Key>, host::mark_rows<Key>>());
    rows.push_back(done_by_another<code::count_chunks<Key>>());
    rows.push_back(done_by_another<code::scan_chunks<Key>>());
    rows.push_back(twin<code::take_rows<Key>, host::collect_rows<Key>>());
    rows.push_back(twin<code::gather_rows_kernel<Key>, host::gather_rows<float, Key>>());
  });
}

}  // namespace millrace::test::virtual_kernels
