// The code of a fat binary that a GPU runs. The GPUs here are H200s (9.0), unless the schedule
// names another profile.

#include <array>

#include "test/virtual_cuda/laws/driver.hpp"
#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp);
void __cudaUnregisterFatBinary(void** module);
}

namespace {

struct Code {
  unsigned short kind;  // 1: PTX, 2: machine code
  unsigned architecture;
};

void kernel_stub() {}  // the host function that nvcc would generate for the kernel

/** A fat binary with these images, each with eight bytes of code. */
class FatBinary {
 public:
  explicit FatBinary(const std::vector<Code>& images) {
    put<unsigned>(0xBA55ED50);
    put<unsigned short>(1);
    put<unsigned short>(16);
    put<unsigned long long>(images.size() * (64 + 8));
    for (const Code& image : images) {
      put<unsigned short>(image.kind);
      put<unsigned short>(0x101);
      put<unsigned>(64);
      put<unsigned long long>(8);
      for (int i = 0; i < 3; ++i) put<unsigned>(0);
      put<unsigned>(image.architecture);
      bytes_.resize(bytes_.size() + 32 + 8);
    }
    wrapper_ = {0x466243B1, 1, bytes_.data(), nullptr};
    module_ = __cudaRegisterFatBinary(&wrapper_);
    __cudaRegisterFunction(module_, reinterpret_cast<const char*>(kernel_stub), nullptr,
                           "_Z6somekv", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  ~FatBinary() { __cudaUnregisterFatBinary(module_); }
  FatBinary(const FatBinary&) = delete;
  FatBinary& operator=(const FatBinary&) = delete;

 private:
  template <typename Number>
  void put(Number number) {
    const auto* const from = reinterpret_cast<const unsigned char*>(&number);
    bytes_.insert(bytes_.end(), from, from + sizeof number);
  }
  struct Wrapper {
    unsigned magic, version;
    const unsigned char* data;
    const void* unused;
  };
  std::vector<unsigned char> bytes_;
  Wrapper wrapper_{};
  void** module_;
};

int gpu_architecture() {
  cudaDeviceProp properties{};
  CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  return properties.major * 10 + properties.minor;
}

cudaError_t launch() {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel_stub), dim3{1, 1, 1}, dim3{1, 1, 1},
                          nullptr, 0, nullptr);
}

}  // namespace

TEST_CASE("a kernel uses the newest code that its GPU can run") {
  only_virtual("its fat binaries have no code");
  const auto gpu = static_cast<unsigned>(gpu_architecture());
  struct Case {
    std::vector<Code> images;
    unsigned binary, ptx;
  };
  const std::array cases{
      Case{{{2, gpu}, {1, gpu}}, gpu, gpu},
      Case{{{2, 75}, {1, 75}}, gpu, 75},                   // compiled from PTX for this GPU
      Case{{{1, 50}, {1, 75}, {1, gpu + 10}}, gpu, 75},    // the newest PTX that is not too new
      Case{{{2, gpu}, {1, 75}}, gpu, gpu},                 // machine code rather than PTX
      Case{{{2, 75}, {2, gpu}, {2, gpu + 10}}, gpu, gpu},  // one image of several
  };
  for (const Case& each : cases) {
    const FatBinary binary{each.images};
    cudaFuncAttributes attributes{};
    CUDA_OK(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_stub)));
    CHECK(attributes.binaryVersion == static_cast<int>(each.binary));
    CHECK(attributes.ptxVersion == static_cast<int>(each.ptx));
    cudaFunction_t function = nullptr;
    CUDA_OK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(kernel_stub)));
    int version = 0;
    DRIVER_OK("cuFuncGetAttribute", &version, CU_FUNC_ATTRIBUTE_PTX_VERSION, function);
    CHECK(version == static_cast<int>(each.ptx));
    DRIVER_OK("cuFuncGetAttribute", &version, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function);
    CHECK(version == static_cast<int>(each.binary));
    CUDA_OK(launch());
  }
}

TEST_CASE("a kernel without code for its GPU is refused with the error of a GPU") {
  only_virtual("its fat binaries have no code");
  const auto gpu = static_cast<unsigned>(gpu_architecture());
  for (const std::vector<Code>& images :
       {std::vector<Code>{{2, 75}}, {{2, gpu + 10}, {1, gpu + 10}}, {{2, gpu + 3}}}) {
    const FatBinary binary{images};
    cudaFuncAttributes attributes{};
    CHECK(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel_stub)) ==
          cudaErrorNoKernelImageForDevice);
    CHECK(launch() == cudaErrorNoKernelImageForDevice);
    CHECK(cudaGetLastError() == cudaErrorNoKernelImageForDevice);
  }
}
