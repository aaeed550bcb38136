// The functions of cuBLAS that Millrace calls. A product is a launch, which takes its turn in its
// stream. OpenBLAS computes it on one thread, with the same bits as the virtual device's products.

#include <cblas.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "abi/cuda_runtime_api.h"
#include "abi/functions.h"
#include "cublas/handle.hpp"
#include "cublas/registration.hpp"
#include "millrace/virtual_cuda.h"

using namespace millrace::virtual_cublas;

namespace {

/** The arguments of cublasSgemm. Matrices are column-major. */
struct Product {
  Transposed transposed_a, transposed_b;
  int m, n, k;
  float alpha;
  const float* a;
  int stride_a;
  const float* b;
  int stride_b;
  float beta;
  float* c;
  int stride_c;
};

const MillraceVirtualCuda* cuda = nullptr;

void sgemm_kernel() {}  // its address identifies the kernel

CBLAS_TRANSPOSE blas(Transposed transposed) {
  return transposed == Transposed::no ? CblasNoTrans : CblasTrans;
}

const Product& product_of(const MillraceLaunch* launch) {
  return *static_cast<const Product*>(launch->arguments[0]);
}

void multiply(const MillraceLaunch* launch) {
  const Product& product = product_of(launch);
  cblas_sgemm(CblasColMajor, blas(product.transposed_a), blas(product.transposed_b), product.m,
              product.n, product.k, product.alpha, static_cast<const float*>(cuda->data(product.a)),
              product.stride_a, static_cast<const float*>(cuda->data(product.b)), product.stride_b,
              product.beta, static_cast<float*>(cuda->data(product.c)), product.stride_c);
}

void cost_of_product(const MillraceLaunch* launch, MillraceCost* cost) {
  const Product& product = product_of(launch);
  const double m = product.m, n = product.n, k = product.k;
  cost->flops = 2 * m * n * k;
  cost->bytes = (m * k + k * n + (product.beta == 0 ? 1 : 2) * m * n) * sizeof(float);
}

/** Acts once in a process. @return false if the runtime is not the virtual one */
bool initialize() {
  static const bool done = [] {
    const void* table = nullptr;
    const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
    if (cudaGetExportTable(&table, &id) != cudaSuccess) {
      std::fputs("millrace virtual cuBLAS: the CUDA runtime is not the virtual one\n", stderr);
      return false;
    }
    cuda = static_cast<const MillraceVirtualCuda*>(table);
    openblas_set_num_threads(1);
    static constexpr char kName[] = "millrace_virtual_sgemm";
    static constexpr std::size_t kBytes[] = {sizeof(Product)};
    const MillraceKernel kernel{kName, kBytes, 1, multiply, cost_of_product};
    cuda->add_kernel(&kernel);
    void** const module = __cudaRegisterFatBinary(nullptr);
    __cudaRegisterFunction(module, reinterpret_cast<const char*>(sgemm_kernel), nullptr, kName, -1,
                           nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterFatBinaryEnd(module);
    return true;
  }();
  return done;
}

bool right(const Product& product) {
  const auto rows = [](Transposed transposed, int as_given, int turned) {
    return std::max(1, transposed == Transposed::no ? as_given : turned);
  };
  const auto known = [](Transposed transposed) {
    return transposed >= Transposed::no && transposed <= Transposed::conjugate;
  };
  return product.m >= 0 && product.n >= 0 && product.k >= 0 && known(product.transposed_a) &&
         known(product.transposed_b) &&
         product.stride_a >= rows(product.transposed_a, product.m, product.k) &&
         product.stride_b >= rows(product.transposed_b, product.k, product.n) &&
         product.stride_c >= std::max(1, product.m);
}

}  // namespace

MILLRACE_EXPORT Status cublasCreate_v2(Handle** handle) {
  if (handle == nullptr) return Status::invalid_value;
  if (!initialize()) return Status::not_initialized;
  *handle = new Handle;
  return Status::success;
}

MILLRACE_EXPORT Status cublasDestroy_v2(Handle* handle) {
  if (handle == nullptr) return Status::not_initialized;
  delete handle;
  return Status::success;
}

MILLRACE_EXPORT Status cublasSetStream_v2(Handle* handle, cudaStream_t stream) {
  if (handle == nullptr) return Status::not_initialized;
  handle->stream = stream;
  return Status::success;
}

/** Products need no workspace. */
MILLRACE_EXPORT Status cublasSetWorkspace_v2(Handle* handle, void* workspace, std::size_t) {
  if (handle == nullptr) return Status::not_initialized;
  return reinterpret_cast<std::size_t>(workspace) % 256 == 0 ? Status::success
                                                             : Status::invalid_value;
}

/** All products are in FP32, which every mode allows. */
MILLRACE_EXPORT Status cublasSetMathMode(Handle* handle, int mode) {
  if (handle == nullptr) return Status::not_initialized;
  handle->math_mode = mode;
  return Status::success;
}

MILLRACE_EXPORT Status cublasSetAtomicsMode(Handle* handle, int mode) {
  if (handle == nullptr) return Status::not_initialized;
  handle->atomics_mode = mode;
  return Status::success;
}

MILLRACE_EXPORT Status cublasSgemm_v2(Handle* handle, Transposed transposed_a,
                                      Transposed transposed_b, int m, int n, int k,
                                      const float* alpha, const float* a, int stride_a,
                                      const float* b, int stride_b, const float* beta, float* c,
                                      int stride_c) {
  if (handle == nullptr) return Status::not_initialized;
  if (alpha == nullptr || beta == nullptr) return Status::invalid_value;
  Product product{transposed_a, transposed_b, m, n,       k, *alpha, a, stride_a, b,
                  stride_b,     *beta,        c, stride_c};
  if (!right(product)) return Status::invalid_value;
  if (m == 0 || n == 0) return Status::success;
  void* arguments[] = {&product};
  return cudaLaunchKernel(reinterpret_cast<const void*>(sgemm_kernel), dim3{1}, dim3{1}, arguments,
                          0, handle->stream) == cudaSuccess
             ? Status::success
             : Status::failed;
}
