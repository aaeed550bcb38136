#include "model/cuda/look_up.cu"

#include <cuda_runtime.h>

#include "model/host/embedding.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace model;
namespace code = model::cuda;
namespace host = model::host;

void add_rows_of_look_up(std::vector<Row>& rows) {
  for_ids_and_offsets([&]<typename Id, typename Offset>() {
    rows.push_back(twin<code::look_up_kernel<Id, Offset>, host::look_up<float, Id, Offset>>());
    rows.push_back(own<code::name_bad_id<Id, Offset>>());
    rows.push_back(twin<code::factor_gradients_kernel<Id, Offset>,
                        host::factor_gradients<float, Id, Offset>>());
    for_types<std::uint32_t, std::uint64_t>([&]<typename Key>() {
      rows.push_back(
          twin<code::linearise_kernel<Key, Id, Offset>, host::linearise<Key, Id, Offset>>());
    });
  });
}

}  // namespace millrace::test::virtual_kernels
