#include "model/cuda/blas.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "millrace/device/cuda_calls.hpp"
#include "model/cuda/blas_api.hpp"

namespace millrace::model::cuda {
namespace {

constexpr int kDefaultMath = 0;  // FP32 stays FP32: TF32 is another mode
constexpr int kNoAtomics = 0;

std::string library_name() {
  const char* const given = std::getenv("MILLRACE_CUBLAS");
  return given != nullptr ? given : fmt::format("libcublas.so.{}", CUDART_VERSION / 1000);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    throw std::runtime_error(fmt::format("cuBLAS lacks {}: {}", name, dlerror()));
  }
  function = reinterpret_cast<Function>(found);
}

BlasApi load() {
  const std::string name = library_name();
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(fmt::format(
        "training on a GPU takes cuBLAS, which is not there ({}). It comes with the CUDA toolkit "
        "(libcublas-{}-x of NVIDIA's apt repository) and as nvidia-cublas from PyPI: put the "
        "folder of {} on LD_LIBRARY_PATH, or name the file in MILLRACE_CUBLAS",
        dlerror(), CUDART_VERSION / 1000, name));
  }
  BlasApi api{};
  find(library, "cublasCreate_v2", api.create);
  find(library, "cublasDestroy_v2", api.destroy);
  find(library, "cublasSetStream_v2", api.set_stream);
  find(library, "cublasSetWorkspace_v2", api.set_workspace);
  find(library, "cublasSetMathMode", api.set_math_mode);
  find(library, "cublasSetAtomicsMode", api.set_atomics_mode);
  find(library, "cublasSgemm_v2", api.sgemm);
  return api;
}

}  // namespace

void check_blas(int status, const char* call) {
  if (status == 0) [[likely]]
    return;
  check_cuda(cudaGetLastError(), call);
  throw std::runtime_error(fmt::format("{} failed: cuBLAS status {}", call, status));
}

const BlasApi& BlasApi::get() {
  static const BlasApi api = load();
  return api;
}

void* create_blas(void* stream, void* workspace) {
  const BlasApi& api = BlasApi::get();
  void* handle = nullptr;
  check_blas(api.create(&handle), "cublasCreate");
  try {
    check_blas(api.set_stream(handle, stream), "cublasSetStream");
    check_blas(api.set_workspace(handle, workspace, kBlasWorkspace), "cublasSetWorkspace");
    check_blas(api.set_math_mode(handle, kDefaultMath), "cublasSetMathMode");
    check_blas(api.set_atomics_mode(handle, kNoAtomics), "cublasSetAtomicsMode");
  } catch (...) {
    destroy_blas(handle);
    throw;
  }
  return handle;
}

void destroy_blas(void* handle) noexcept { BlasApi::get().destroy(handle); }

}  // namespace millrace::model::cuda
