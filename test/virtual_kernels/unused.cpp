// The functions that launch code calls. They are compiled with the kernels and never run here.

#include <cstdio>
#include <cstdlib>

#include "millrace/device/cuda_calls.hpp"
#include "model/cuda/blas_api.hpp"

namespace {

[[noreturn]] void never() {
  std::fputs("millrace kernels on the host: nothing is launched here\n", stderr);
  std::abort();
}

}  // namespace

namespace millrace {

void throw_cuda_error(int, const char*) { never(); }

namespace model::cuda {

const BlasApi& BlasApi::get() { never(); }
void check_blas(int, const char*) { never(); }

}  // namespace model::cuda
}  // namespace millrace
