#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Owns an allocation. Move-only.
 *
 * The destructor frees it in the order of the owner stream. The allocator must outlive the buffer.
 */
class Buffer {
 public:
  Buffer() = default;  ///< owns nothing
  /** @brief Allocates; see `Allocator::allocate` for parameters and exceptions. */
  Buffer(Allocator& allocator, std::size_t bytes, StreamRef stream, Tag tag = {})
      : Buffer(allocator, bytes, stream, stream, tag) {}
  /** @brief Allocates memory of `owner` that `first_user` uses first; see `Allocator::allocate`. */
  Buffer(Allocator& allocator, std::size_t bytes, StreamRef owner, StreamRef first_user,
         Tag tag = {})
      : allocator_(&allocator),
        data_(allocator.allocate(bytes, owner, first_user, tag)),
        bytes_(bytes) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept
      : allocator_(other.allocator_),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      allocator_ = other.allocator_;
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }

  /** @brief Returns the address; nullptr if the buffer owns nothing. */
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }  ///< requested bytes
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }

  /** @brief See `Allocator::record_use`. */
  void record_use(StreamRef stream) {
    if (data_ != nullptr) allocator_->record_use(data_, stream);
  }
  /** @brief See `Allocator::transfer`. */
  void transfer(StreamRef new_owner) {
    if (data_ != nullptr) allocator_->transfer(data_, new_owner);
  }
  /** @brief Frees the memory in the order of the owner stream. */
  void reset() noexcept {
    if (data_ != nullptr) allocator_->deallocate(std::exchange(data_, nullptr));
    bytes_ = 0;
  }
  /** @brief Frees the memory in the order of `stream`. */
  void reset(StreamRef stream) {
    if (data_ != nullptr) allocator_->deallocate(std::exchange(data_, nullptr), stream);
    bytes_ = 0;
  }
  /** @brief Frees the memory. The caller states that every use precedes `marker`. */
  void reset(Point marker) {
    if (data_ != nullptr) allocator_->deallocate(std::exchange(data_, nullptr), marker);
    bytes_ = 0;
  }

 private:
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/** @brief A Buffer for `size()` objects of the trivially copyable type `T`. */
template <typename T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>, "device memory is copied as bytes");

 public:
  Array() = default;
  /**
   * @brief Allocates memory for `size` objects.
   * @throws std::length_error if they need more bytes than a `std::size_t` can count
   */
  Array(Allocator& allocator, std::size_t size, StreamRef stream, Tag tag = {})
      : buffer_(allocator, bytes_of(size), stream, tag), size_(size) {}

  [[nodiscard]] T* data() const noexcept { return static_cast<T*>(buffer_.data()); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Buffer& buffer() noexcept { return buffer_; }

 private:
  [[nodiscard]] static std::size_t bytes_of(std::size_t size) {
    if (size <= std::numeric_limits<std::size_t>::max() / sizeof(T)) return size * sizeof(T);
    throw std::length_error{"Array: " + std::to_string(size) + " objects of " +
                            std::to_string(sizeof(T)) + " bytes are more than there are addresses"};
  }

  Buffer buffer_;
  std::size_t size_ = 0;
};

}  // namespace millrace
