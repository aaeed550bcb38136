#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/error.hpp"
#include "device/cuda/handles.hpp"

/// Shared by the benchmarks that need a GPU.

namespace millrace::bench {

using cuda::check;

/// The GPU in MILLRACE_GPU, by default 0. `main` has made it current.
[[nodiscard]] int chosen_gpu();

/// Registers the benchmarks of a program. Called before any CUDA call.
void register_benchmarks();

/// Device memory for the duration of a benchmark. It uses cudaMalloc, so that no part of Millrace
/// is needed.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes()), "cudaMalloc", bytes());
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { cuda::quietly(cudaFree(data_)); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;

  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return size_ * sizeof(T); }
  [[nodiscard]] std::span<T> all() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const T> read() const noexcept { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace millrace::bench
