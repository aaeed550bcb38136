#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "millrace/device/operation.hpp"
#include "millrace/pipeline/kernels/host_device.hpp"

/// @file
/// ArrayView: an array that a kernel is given. Declared with reads(), writes() or updates(); used
/// like a span, on the host and on a GPU.

namespace millrace::model {

/**
 * @brief An array that a kernel reads (`T` const) or changes, and how it does.
 *
 * Where an operation is declared the address is that of device memory; a host kernel gets the same
 * view of memory that it may touch (`enqueue`).
 */
template <typename T>
struct ArrayView {
  T* address = nullptr;
  std::size_t count = 0;
  Access access = Access::read;

  [[nodiscard]] MILLRACE_HOST_DEVICE T* data() const { return address; }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t size() const { return count; }
  [[nodiscard]] MILLRACE_HOST_DEVICE bool empty() const { return count == 0; }
  [[nodiscard]] MILLRACE_HOST_DEVICE T& operator[](std::size_t i) const { return address[i]; }
  [[nodiscard]] operator std::span<T>() const { return {address, count}; }
};

/** @brief The operation reads the array. @param data  null: there is none */
template <typename T>
[[nodiscard]] ArrayView<const T> reads(const T* data, std::size_t size) {
  return {data, data == nullptr ? 0 : size, Access::read};
}
/** @brief The operation writes the array, whatever it held. @param data  null: there is none */
template <typename T>
[[nodiscard]] ArrayView<T> writes(T* data, std::size_t size) {
  return {data, data == nullptr ? 0 : size, Access::write};
}
/** @brief The operation reads and writes the array. @param data  null: there is none */
template <typename T>
[[nodiscard]] ArrayView<T> updates(T* data, std::size_t size) {
  return {data, data == nullptr ? 0 : size, Access::read_write};
}

/** @brief The same of all of an array: an Array, a vector, a view. */
template <typename Elements>
[[nodiscard]] auto reads(const Elements& elements) {
  return reads(elements.data(), elements.size());
}
template <typename Elements>
[[nodiscard]] auto writes(Elements&& elements) {
  return writes(elements.data(), elements.size());
}
template <typename Elements>
[[nodiscard]] auto updates(Elements&& elements) {
  return updates(elements.data(), elements.size());
}

}  // namespace millrace::model
