#include "cublas/turn.hpp"

#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "abi/functions.h"
#include "cublas/registration.hpp"
#include "millrace/virtual_cuda.h"

namespace millrace::virtual_cublas {
namespace {

void set_cost(const MillraceLaunch* launch, MillraceCost* cost) {
  const Cost& told = *static_cast<const Cost*>(launch->arguments[0]);
  cost->flops = told.flops;
  cost->bytes = told.bytes;
}

/** The kernels of this library, registered at their first use. Never destroyed. */
class Kernels {
 public:
  /** The kernel's address for a launch. Null if the runtime is not the virtual one. */
  const void* find(const char* function) {
    const std::lock_guard lock{mutex_};
    const auto [entry, added] = names_.try_emplace(function, '\0');
    if (!added) return &entry->second;
    const MillraceVirtualCuda* const cuda = table();
    if (cuda == nullptr) {
      names_.erase(entry);
      return nullptr;
    }
    if (module_ == nullptr) {
      module_ = __cudaRegisterFatBinary(nullptr);
      __cudaRegisterFatBinaryEnd(module_);
    }
    static constexpr std::size_t kBytes[] = {sizeof(Cost)};
    MillraceKernel kernel{};
    kernel.pattern = entry->first.c_str();
    kernel.argument_bytes = kBytes;
    kernel.argument_count = 1;
    kernel.cost = set_cost;
    cuda->add_kernel(&kernel);
    __cudaRegisterFunction(module_, &entry->second, nullptr, entry->first.c_str(), -1, nullptr,
                           nullptr, nullptr, nullptr, nullptr);
    return &entry->second;
  }

 private:
  static const MillraceVirtualCuda* table() {
    const void* found = nullptr;
    const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
    if (cudaGetExportTable(&found, &id) == cudaSuccess)
      return static_cast<const MillraceVirtualCuda*>(found);
    std::fputs("millrace virtual cuBLAS: the CUDA runtime is not the virtual one\n", stderr);
    return nullptr;
  }

  std::mutex mutex_;
  std::map<std::string, char> names_;
  void** module_ = nullptr;
};

}  // namespace

Element element_of(int data_type) noexcept {
  constexpr double kComplexProducts = 4;
  switch (data_type) {
    case 1:  // R_64F
      return {8, 1};
    case 4:  // C_32F
      return {8, kComplexProducts};
    case 5:  // C_64F
      return {16, kComplexProducts};
    case 2:   // R_16F
    case 14:  // R_16BF
      return {2, 1};
    case 6:   // C_16F
    case 15:  // C_16BF
      return {4, kComplexProducts};
    case 3:   // R_8I
    case 8:   // R_8U
    case 28:  // R_8F_E4M3
    case 29:  // R_8F_E5M2
    case 30:  // R_8F_UE8M0
      return {1, 1};
    case 33:  // R_4F_E2M1
      return {0.5, 1};
    default:
      return {4, 1};
  }
}

Cost cost_of_product(double m, double n, double k, double count, const Element& element) noexcept {
  return {2 * m * n * k * count * element.products,
          (m * k + k * n + m * n) * count * element.bytes};
}

Status take_turn(const char* function, cudaStream_t stream, const Cost& cost) {
  static auto* const kernels = new Kernels;
  const void* const kernel = kernels->find(function);
  if (kernel == nullptr) return Status::not_initialized;
  Cost told = cost;
  void* arguments[] = {&told};
  return cudaLaunchKernel(kernel, dim3{1}, dim3{1}, arguments, 0, stream) == cudaSuccess
             ? Status::success
             : Status::failed;
}

Status wait_for(cudaStream_t stream) {
  return cudaStreamSynchronize(stream) == cudaSuccess ? Status::success : Status::failed;
}

Status get_property(int property, int* value) noexcept {
  if (value == nullptr) return Status::invalid_value;
  switch (property) {
    case 0:
      *value = kCublasVersion / 10000;
      return Status::success;
    case 1:
      *value = kCublasVersion / 100 % 100;
      return Status::success;
    case 2:
      *value = kCublasVersion % 100;
      return Status::success;
    default:
      return Status::invalid_value;
  }
}

Refusal refuse(const char* function) noexcept {
  static auto* const mutex = new std::mutex;
  static auto* const named = new std::set<std::string>;
  const std::lock_guard lock{*mutex};
  if (named->insert(function).second)
    std::fprintf(stderr, "millrace virtual cuBLAS: %s is not supported\n", function);
  return {};
}

}  // namespace millrace::virtual_cublas
