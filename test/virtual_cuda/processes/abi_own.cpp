#include "abi/cuda_driver.h"
#include "test/virtual_cuda/processes/abi.hpp"

millrace::test::Layout millrace::test::own_layout() {
  Layout layout;
  // The name and the value of an error are one row.
  enum {
#define MILLRACE_DRIVER_ERROR(name, value) name = value,
#include "abi/driver_errors.def"
#undef MILLRACE_DRIVER_ERROR
  };
#define DRIVER_VALUE(name) layout[#name] = static_cast<long long>(name);
#include "test/virtual_cuda/processes/abi_rows.inc"
  return layout;
}
