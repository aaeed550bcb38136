#include <cuda_runtime.h>

#include "sharding/cuda/columns.cu"
#include "sharding/cuda/split.cu"
#include "sharding/host/kernels.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace sharding;
namespace code = sharding::cuda;
namespace host = sharding::host;

namespace {

template <typename Offset>
void means(float* to, std::size_t batch, const Offset* offsets) {
  host::bag_means<Offset>({to, batch}, {offsets, batch + 1}, 0);
}

template <typename Offset>
void count_split(std::int64_t* counts, std::size_t rows, const Offset* offsets, std::size_t batch) {
  host::count_split<Offset>({counts, rows}, {offsets, rows * batch + 1}, batch);
}

template <typename Offset>
void positions(float* to, std::size_t bags, const Offset* offsets) {
  host::bag_positions<Offset>({to, static_cast<std::size_t>(offsets[bags])}, {offsets, bags + 1});
}

}  // namespace

void add_rows_of_sharding(std::vector<Row>& rows) {
  rows.push_back(twin<code::columns_kernel<true, JoinColumnsArguments>, host::join_columns>());
  rows.push_back(twin<code::columns_kernel<false, PartColumnsArguments>, host::part_columns>());
  for_types<std::int32_t, std::int64_t>([&]<typename Offset>() {
    rows.push_back(twin<code::means_kernel<Offset>, means<Offset>>());
    rows.push_back(twin<code::count_split_kernel<Offset>, count_split<Offset>>());
    rows.push_back(twin<code::positions_kernel<Offset>, positions<Offset>>());
  });
  for_ids_and_offsets([&]<typename Id, typename Offset>() {
    rows.push_back(twin<code::split_lengths_kernel<Id, Offset>, host::split_lengths<Id, Offset>>());
    rows.push_back(twin<code::split_values_kernel<Id, Offset>, host::split_values<Id, Offset>>());
  });
}

}  // namespace millrace::test::virtual_kernels
