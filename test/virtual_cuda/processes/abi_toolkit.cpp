#include <cstddef>

#include "test/virtual_cuda/processes/abi.hpp"
#if MILLRACE_TEST_TOOLKIT
#include <cuda.h>
#include <cuda_runtime_api.h>
#endif

millrace::test::Layout millrace::test::toolkit_layout() {
  Layout layout;
#if MILLRACE_TEST_TOOLKIT
#define DRIVER_VALUE(name) layout[#name] = static_cast<long long>(name);
#include "test/virtual_cuda/processes/abi_rows.inc"
#endif
  return layout;
}
