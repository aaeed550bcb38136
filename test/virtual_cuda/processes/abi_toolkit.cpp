#include <cstddef>

#include "test/virtual_cuda/processes/abi.hpp"
#if MILLRACE_TEST_TOOLKIT
#include <cuda_runtime_api.h>
#endif

millrace::test::Layout millrace::test::toolkit_layout() {
  Layout layout;
#if MILLRACE_TEST_TOOLKIT
#include "test/virtual_cuda/processes/abi_rows.inc"
#endif
  return layout;
}
