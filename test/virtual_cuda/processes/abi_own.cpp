#include "abi/cuda_runtime_api.h"
#include "test/virtual_cuda/processes/abi.hpp"

millrace::test::Layout millrace::test::own_layout() {
  Layout layout;
#include "test/virtual_cuda/processes/abi_rows.inc"
  return layout;
}
