#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "millrace/memory/buffer.hpp"

namespace millrace {

/**
 * @brief A span of device memory or of pinned host memory, and who owns it.
 *
 * Copies and slices share the memory; it is freed, on its owner stream, when the last of them goes.
 * A borrowed tensor belongs to a batch (HostBatch, DeviceBatch), which has to outlive it.
 */
class BatchTensor {
 public:
  BatchTensor() = default;  ///< empty
  /** @brief Borrows. */
  BatchTensor(void* data, std::size_t bytes) noexcept
      : data_(bytes == 0 ? nullptr : static_cast<std::byte*>(data)), bytes_(bytes) {}
  /**
   * @brief Owns `bytes` that work enqueued on `stream` may use from now on.
   * @throws out_of_memory, DeviceError as `Allocator::allocate`
   */
  BatchTensor(Allocator& allocator, std::size_t bytes, StreamRef stream, Tag tag = {})
      : memory_(bytes == 0 ? nullptr : std::make_shared<Buffer>(allocator, bytes, stream, tag)),
        data_(memory_ == nullptr ? nullptr : static_cast<std::byte*>(memory_->data())),
        bytes_(bytes) {}

  [[nodiscard]] void* data() const noexcept { return data_; }  ///< null if it is empty
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_ == 0; }
  [[nodiscard]] bool owned() const noexcept { return memory_ != nullptr; }

  /** @brief All of it as objects of `T`. On the host only where the memory is the host's. */
  template <typename T>
  [[nodiscard]] std::span<T> as() const noexcept {
    static_assert(std::is_trivially_copyable_v<T>, "batches are copied as bytes");
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  /** @brief `bytes` from `offset` on, of the same owner. */
  [[nodiscard]] BatchTensor slice(std::size_t offset, std::size_t bytes) const {
    BatchTensor part{*this};
    part.data_ = bytes == 0 ? nullptr : data_ + offset;
    part.bytes_ = bytes;
    return part;
  }

  /** @brief `stream` uses it too, until it is freed. What is borrowed is left to its owner. */
  void record_use(StreamRef stream) const {
    if (memory_ != nullptr) memory_->record_use(stream);
  }

 private:
  std::shared_ptr<Buffer> memory_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace millrace
