#include "device/cuda/occupation.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {
namespace {

// The GPU's kernel writes back what it has read. So a test sees only its time, and the error of an
// address that is not memory.
void occupy(const MillraceLaunch* launch) {
  run_kernel(*launch, [launch] {
    const auto& occupation = *static_cast<const cuda::Occupation*>(launch->arguments[0]);
    for (unsigned i = 0; i < occupation.view_count; ++i)
      require_memory(occupation.views[i].address, occupation.views[i].bytes);
  });
}

void time_of_occupation(const MillraceLaunch* launch, MillraceCost* cost) {
  const auto& occupation = *static_cast<const cuda::Occupation*>(launch->arguments[0]);
  cost->nanoseconds = static_cast<long long>(occupation.shared + occupation.alone);
  cost->whole_machine = occupation.shared > 0 ? 1 : 0;
}

}  // namespace

void add_rows_of_allocator(std::vector<Row>& rows) {
  rows.push_back({.pattern = "millrace::cuda::(anonymous namespace)::occupy_kernel("
                             "millrace::cuda::Occupation)",
                  .argument_bytes = {sizeof(cuda::Occupation)},
                  .run = occupy,
                  .cost = time_of_occupation});
}

}  // namespace millrace::test::virtual_kernels
