#pragma once

#include <cstddef>
#include <utility>

#include "millrace/device/stream.hpp"

namespace millrace::model {

/**
 * @brief Floats in pinned host memory that kernels read and write.
 *
 * The destructor makes the host wait for the main stream. Like for all memory of a model, every use
 * must by then be ordered before work on that stream.
 */
class PinnedArray {
 public:
  PinnedArray() = default;
  /** @throws DeviceError */
  PinnedArray(Stream& main, std::size_t size)
      : main_(&main),
        data_(size == 0 ? nullptr
                        : static_cast<float*>(
                              main.device().device().allocate_host(size * sizeof(float)))),
        size_(size) {}
  ~PinnedArray() { reset(); }
  PinnedArray(PinnedArray&& other) noexcept
      : main_(other.main_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  PinnedArray& operator=(PinnedArray&& other) noexcept {
    if (this != &other) {
      reset();
      main_ = other.main_;
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }

  [[nodiscard]] float* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void reset() noexcept {
    if (data_ == nullptr) return;
    try {
      main_->synchronize();
      main_->device().device().free_host(data_);
    } catch (...) {  // the device or its machine is gone, and the memory with it
    }
    data_ = nullptr;
  }

  Stream* main_ = nullptr;
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millrace::model
