#include "model/cuda/update_rows.cu"

#include <cuda_runtime.h>

#include "model/host/embedding.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace model;
namespace code = model::cuda;
namespace host = model::host;

void add_rows_of_update_rows(std::vector<Row>& rows) {
  const auto add = [&]<typename Optimizer, typename Key, typename Offset>() {
    rows.push_back(twin<code::update_short_runs<Optimizer, Key, Offset>,
                        host::update_rows<float, Key, Offset>>());
    rows.push_back(done_by_another<code::update_long_runs<Optimizer, Key, Offset>>());
  };
  for (const OptimizerTraits& traits : kOptimizers) {
    with_optimizer(traits.kind, [&]<typename Optimizer>(Optimizer) {
      for_types<std::uint32_t, std::uint64_t>([&]<typename Key>() {
        add.template operator()<Optimizer, Key, std::int32_t>();
        add.template operator()<Optimizer, Key, std::int64_t>();
      });
    });
  }
}

}  // namespace millrace::test::virtual_kernels
