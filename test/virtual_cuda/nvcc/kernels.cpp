// Host implementations of the kernels of program.cu, for MILLRACE_VIRTUAL_KERNELS.

#include <cstddef>

#include "millrace/virtual_cuda.h"

namespace {

const MillraceVirtualCuda* cuda = nullptr;

void scale(const MillraceLaunch* launch) {
  auto* const values = static_cast<float*>(cuda->data(*static_cast<void**>(launch->arguments[0])));
  const float factor = *static_cast<float*>(launch->arguments[1]);
  const int count = *static_cast<int*>(launch->arguments[2]);
  const auto threads = static_cast<int>(launch->grid[0] * launch->block[0]);
  for (int i = 0; i < threads && i < count; ++i) values[i] *= factor;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void millrace_virtual_kernels(
    const MillraceVirtualCuda* table) {
  cuda = table;
  static constexpr std::size_t kBytes[] = {sizeof(float*), sizeof(float), sizeof(int)};
  const MillraceKernel kernel{"*scale*", kBytes, 3, scale, nullptr};
  table->add_kernel(&kernel);
}
