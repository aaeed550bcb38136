// Compares the table of host implementations with the kernels of the project's libraries. This
// program links the whole of these libraries.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fnmatch.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/virtual_cuda.h"
#include "test/support/catch.hpp"

namespace {

struct Registered {
  std::string name, readable;
  bool computes;
};

std::vector<Registered> registered_kernels() {
  const void* table = nullptr;
  const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
  REQUIRE(cudaGetExportTable(&table, &id) == cudaSuccess);
  std::vector<Registered> all;
  static_cast<const MillraceVirtualCuda*>(table)->each_kernel(
      [](const MillraceRegistered* kernel, void* data) {
        static_cast<std::vector<Registered>*>(data)->push_back(
            {kernel->name, kernel->readable, kernel->computes != 0});
      },
      &all);
  return all;
}

std::vector<std::string> patterns() {
  const char* const file = std::getenv("MILLRACE_VIRTUAL_KERNELS");
  REQUIRE(file != nullptr);
  void* const library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  using Visit = void (*)(const char*, void*);
  const auto rows =
      reinterpret_cast<void (*)(Visit, void*)>(dlsym(library, "millrace_virtual_kernel_rows"));
  REQUIRE(rows != nullptr);
  std::vector<std::string> all;
  rows([](const char* pattern,
          void* data) { static_cast<std::vector<std::string>*>(data)->push_back(pattern); },
       &all);
  return all;
}

/** Kernels that CUB's dispatch names and that no launch of ours uses. */
bool never_launched(std::string_view readable) {
  for (const std::string_view name :
       {"EmptyKernel", "DeviceRadixSortUpsweepKernel", "DeviceRadixSortDownsweepKernel",
        "RadixSortScanBinsKernel", "DeviceSegmentedRadixSortKernel"})
    if (readable.find(name) != std::string_view::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("every kernel has a host implementation") {
  const std::vector<Registered> kernels = registered_kernels();
  CHECK(kernels.size() > 100);
  for (const Registered& kernel : kernels) {
    INFO(kernel.readable);
    CHECK((kernel.computes || never_launched(kernel.readable)));
  }
}

TEST_CASE("every host implementation belongs to a kernel, and no kernel has two") {
  const std::vector<Registered> kernels = registered_kernels();
  const std::vector<std::string> rows = patterns();
  std::vector<int> of_kernel(kernels.size());
  for (const std::string& pattern : rows) {
    INFO(pattern);
    int found = 0;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      if (fnmatch(pattern.c_str(), kernels[i].readable.c_str(), 0) != 0) continue;
      ++found;
      ++of_kernel[i];
    }
    CHECK(found > 0);
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    INFO(kernels[i].readable);
    CHECK(of_kernel[i] <= 1);
  }
}
