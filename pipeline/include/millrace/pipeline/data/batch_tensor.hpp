#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "millrace/memory/buffer.hpp"

namespace millrace {

/**
 * @brief A range of device memory or of pinned host memory, owned or borrowed.
 *
 * Copies and slices share the memory. Owned memory is freed, ordered on its owner stream, when the
 * last copy or slice is destroyed. Borrowed memory belongs to a batch (HostBatch, DeviceBatch) that
 * must outlive the tensor.
 */
class BatchTensor {
 public:
  BatchTensor() = default;  ///< empty
  /** @brief Borrows `bytes` bytes at `data`. */
  BatchTensor(void* data, std::size_t bytes) noexcept
      : data_(bytes == 0 ? nullptr : static_cast<std::byte*>(data)), bytes_(bytes) {}
  /**
   * @brief Allocates memory that work enqueued on `stream` may use from now on.
   * @param bytes   size in bytes; 0 gives an empty tensor
   * @param stream  owner stream: the free is ordered on it
   * @param tag     the tag that the allocator counts the bytes under
   * @throws out_of_memory, DeviceError like `Allocator::allocate`
   */
  BatchTensor(Allocator& allocator, std::size_t bytes, StreamRef stream, Tag tag = {})
      : memory_(bytes == 0 ? nullptr : std::make_shared<Buffer>(allocator, bytes, stream, tag)),
        data_(memory_ == nullptr ? nullptr : static_cast<std::byte*>(memory_->data())),
        bytes_(bytes) {}

  [[nodiscard]] void* data() const noexcept { return data_; }  ///< nullptr if empty
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool empty() const noexcept { return bytes_ == 0; }
  [[nodiscard]] bool owned() const noexcept { return memory_ != nullptr; }

  /**
   * @brief Returns the whole tensor as objects of type `T`.
   *
   * The host may read the span only if the memory is pinned host memory.
   */
  template <typename T>
  [[nodiscard]] std::span<T> as() const noexcept {
    static_assert(std::is_trivially_copyable_v<T>, "batches are copied as bytes");
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

  /** @brief Returns the `bytes` bytes that begin at byte `offset`; shares the memory. */
  [[nodiscard]] BatchTensor slice(std::size_t offset, std::size_t bytes) const {
    BatchTensor part{*this};
    part.data_ = bytes == 0 ? nullptr : data_ + offset;
    part.bytes_ = bytes;
    return part;
  }

  /**
   * @brief Records that `stream` uses the memory, until it is freed.
   *
   * Does nothing for borrowed memory: its owner records uses.
   */
  void record_use(StreamRef stream) const {
    if (memory_ != nullptr) memory_->record_use(stream);
  }

 private:
  std::shared_ptr<Buffer> memory_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace millrace
