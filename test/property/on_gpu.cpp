#include <cstdlib>
#include <string>

#include "millrace/config.hpp"
#include "millrace/device/cuda_device.hpp"
#include "test/property/run.hpp"
#include "test/support/catch.hpp"

#if MILLRACE_HAS_CUDA

namespace millrace::test {
namespace {

// Runs only on request, because other programs may use the machine's GPUs.
int require_chosen_gpu() {
  const char* const chosen = std::getenv("MILLRACE_GPU");
  if (chosen == nullptr) SKIP("needs the number of a GPU in MILLRACE_GPU");
  if (const CudaDeviceCount gpus = cuda_device_count(); gpus.count == 0) SKIP(gpus.reason);
  return std::stoi(chosen);
}

TEST_CASE("laws 1 to 3 hold for any program on a GPU", "[gpu]") {
  const int ordinal = require_chosen_gpu();
  const auto gpu = CudaDevice::create(ordinal);
  const auto kernels = make_content_kernels(ordinal);
  std::uint64_t checked = 0;
  REQUIRE(rc::check([&] {
    const auto setup = *rc::gen::suchThat(random_setup(), [](const Setup& drawn) {
      return drawn.preset != Preset::driver;  // the driver's pool may take the whole GPU
    });
    const auto program = *random_program();
    World world{setup, *gpu, *kernels};
    run_to_nothing(world, program);
    checked = kernels->findings().checked;
  }));
  CHECK(checked > 0);
}

}  // namespace
}  // namespace millrace::test

#endif
