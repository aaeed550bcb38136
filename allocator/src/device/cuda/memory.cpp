#include "device/cuda/error.hpp"
#include "device/cuda/runtime.hpp"
#include "millrace/device/cuda_calls.hpp"

namespace millrace::cuda {

void* Runtime::do_allocate(std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  void* address = nullptr;
  check(cudaMalloc(&address, bytes), "cudaMalloc", bytes);
  return address;
}

void Runtime::do_free(void* address) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check_released(cudaFree(address), "cudaFree", address);
}

void* Runtime::do_allocate_host(std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  void* address = nullptr;
  check(cudaHostAlloc(&address, bytes, cudaHostAllocDefault), "cudaHostAlloc", bytes);
  return address;
}

void Runtime::do_free_host(void* address) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  check_released(cudaFreeHost(address), "cudaFreeHost", address);
}

MemoryInfo Runtime::do_memory_info() {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  MemoryInfo info;
  check(cudaMemGetInfo(&info.free, &info.total), "cudaMemGetInfo");
  return info;
}

VirtualMemory& Runtime::virtual_memory() {
  if (virtual_memory_) return *virtual_memory_;
  throw DeviceError{ErrorCode::not_supported, name(),
                    "this GPU or its driver cannot map memory (cuMemMap)"};
}

void* Runtime::do_reserve_range(std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  return virtual_memory().reserve(bytes);
}

void Runtime::do_release_range(void* base, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().free(static_cast<std::byte*>(base), bytes);
}

void Runtime::do_map(void* address, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().fill(static_cast<std::byte*>(address), bytes);
}

void Runtime::do_unmap(void* address, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().unmap(static_cast<std::byte*>(address), bytes);
}

void Runtime::do_alias(void* to, void* from, std::size_t bytes) {
  const CurrentContext current = enter();
  const OutsideCapture outside;
  virtual_memory().alias(static_cast<std::byte*>(to), static_cast<std::byte*>(from), bytes);
}

void Runtime::allow_peer(int ordinal) {
  if (ordinal == ordinal_) return;
  if (!cuda_peer_access(ordinal, ordinal_)) {
    throw DeviceError{ErrorCode::not_supported, name(),
                      "cuda:" + std::to_string(ordinal) + " cannot use its memory"};
  }
  {
    const CurrentContext current = enter();
    const OutsideCapture outside;
    if (pool_ != nullptr) allow_pool_to(pool_.get(), ordinal);
    if (virtual_memory_) virtual_memory_->allow_peer(ordinal);
  }
  const CurrentGpu peer{ordinal};  // peer access is a property of this context
  const cudaError_t result = cudaDeviceEnablePeerAccess(ordinal_, 0);
  if (result == cudaErrorPeerAccessAlreadyEnabled) return quietly(result);
  check(result, "cudaDeviceEnablePeerAccess", ordinal_, 0);
}

}  // namespace millrace::cuda
