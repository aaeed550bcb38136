#include "test/virtual_cuda/checker/scene.hpp"

extern "C" {
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** module);
void __cudaRegisterFunction(void** module, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_size, dim3* grid_size, int* warp);
}

namespace millrace::test::kernels {
namespace {

char write_stub, read_stub, first_stub, second_stub;

template <int* Buffers::*kWritten>
void tell(const MillraceLaunch* launch, const MillraceAccesses* accesses) {
  const auto& buffers = *static_cast<const Buffers*>(launch->arguments[0]);
  accesses->add(accesses->list, buffers.*kWritten, MILLRACE_TO_THE_END, 1);
}

void add_host_kernel(const char* name,
                     void (*accesses)(const MillraceLaunch*, const MillraceAccesses*)) {
  static constexpr std::size_t kBytes[] = {sizeof(Buffers)};
  MillraceKernel kernel{};
  kernel.pattern = name;
  kernel.argument_bytes = kBytes;
  kernel.argument_count = 1;
  kernel.accesses = accesses;
  virtual_cuda().add_kernel(&kernel);
}

void launch(const char& stub, void** arguments, cudaStream_t stream) {
  static const bool registered = [] {
    constexpr auto kFirst = "_Z11write_first7Buffersi";
    constexpr auto kSecond = "_Z12write_second7Buffersi";
    void** const module = __cudaRegisterFatBinary(nullptr);
    const auto add = [&](const char& known, const char* name) {
      __cudaRegisterFunction(module, &known, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr,
                             nullptr);
    };
    add(write_stub, "_Z5writePii");
    add(read_stub, "_Z14read_and_writePiPKii");
    add(first_stub, kFirst);
    add(second_stub, kSecond);
    __cudaRegisterFatBinaryEnd(module);
    add_host_kernel(kFirst, tell<&Buffers::first>);
    add_host_kernel(kSecond, tell<&Buffers::second>);
    return true;
  }();
  static_cast<void>(registered);
  CUDA_OK(cudaLaunchKernel(&stub, {1, 1, 1}, {32, 1, 1}, arguments, 0, stream));
}

void launch_with(const char& stub, Buffers buffers, cudaStream_t stream) {
  int count = 1;
  void* arguments[] = {&buffers, &count};
  launch(stub, arguments, stream);
}

}  // namespace

void launch_write(int* to, cudaStream_t stream) {
  int count = 1;
  void* arguments[] = {&to, &count};
  launch(write_stub, arguments, stream);
}

void launch_read(int* to, const int* from, cudaStream_t stream) {
  int count = 1;
  void* arguments[] = {&to, &from, &count};
  launch(read_stub, arguments, stream);
}

void launch_write_first(const Buffers& buffers, cudaStream_t stream) {
  launch_with(first_stub, buffers, stream);
}
void launch_write_second(const Buffers& buffers, cudaStream_t stream) {
  launch_with(second_stub, buffers, stream);
}

}  // namespace millrace::test::kernels
