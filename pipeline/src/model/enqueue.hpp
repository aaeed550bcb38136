#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "millrace/config.hpp"
#include "millrace/device/operation.hpp"
#include "millrace/pipeline/model/embedding_bags.hpp"
#include "millrace/pipeline/model/model_context.hpp"
#include "model/blas_handle.hpp"

/// @file
/// enqueue(): an operation, declared once. Its arguments are views (reads, writes, updates) and
/// plain values; the host kernel gets the views as spans of memory that it may touch, the CUDA
/// kernel the same spans on the device, behind the queue to enqueue on.

namespace millrace::model {

template <typename T, Access access>
struct Argument {
  using Span = std::span<std::conditional_t<access == Access::read, const T, T>>;
  T* data = nullptr;
  std::size_t size = 0;

  [[nodiscard]] View view() const { return {data, size * sizeof(T), access}; }
  [[nodiscard]] Span span() const { return {data, size}; }
};

template <typename T>
[[nodiscard]] Argument<T, Access::read> reads(const T* data, std::size_t size) {
  return {const_cast<T*>(data), data == nullptr ? 0 : size};
}
template <typename T>
[[nodiscard]] Argument<T, Access::write> writes(T* data, std::size_t size) {
  return {data, data == nullptr ? 0 : size};
}
template <typename T>
[[nodiscard]] Argument<T, Access::read_write> updates(T* data, std::size_t size) {
  return {data, data == nullptr ? 0 : size};
}
template <typename T>
[[nodiscard]] Argument<T, Access::read> reads(const Array<T>& array) {
  return reads(static_cast<const T*>(array.data()), array.size());
}
template <typename T>
[[nodiscard]] Argument<T, Access::write> writes(const Array<T>& array) {
  return writes(array.data(), array.size());
}
template <typename T>
[[nodiscard]] Argument<T, Access::read_write> updates(const Array<T>& array) {
  return updates(array.data(), array.size());
}

/**
 * @brief Calls with a view of a matrix of which the operation writes the columns of one part. The
 *        first part may find anything there, the others what the parts before them wrote.
 */
template <typename Enqueue>
void write_part(const PooledMatrix& part, std::size_t rows, Enqueue&& enqueue_with) {
  const std::size_t size = rows * part.stride;
  if (part.column == 0) {
    enqueue_with(writes(part.data, size));
  } else {
    enqueue_with(updates(part.data, size));
  }
}

/** @brief What an operation is called and costs; and with which handle it multiplies, if it does.
 */
struct Declared {
  const char* name;
  double flops = 0, bytes = 0;
  double host_read = 0, host_written = 0;  ///< as Cost
  const BlasHandle* blas = nullptr;
};

/** @brief The same memory, read only. */
template <typename T, Access access>
[[nodiscard]] Argument<T, Access::read> reads(const Argument<T, access>& argument) {
  return reads(static_cast<const T*>(argument.data), argument.size);
}

namespace detail {

template <typename T>
inline constexpr bool is_view = false;
template <typename T, Access access>
inline constexpr bool is_view<Argument<T, access>> = true;

template <typename T>
const T& on_host(const KernelContext&, std::size_t, const T& value) {
  return value;
}
template <typename T, Access access>
typename Argument<T, access>::Span on_host(const KernelContext& kernel, std::size_t view,
                                           const Argument<T, access>&) {
  return kernel.as<T>(view);
}

template <typename T>
const T& on_device(const T& value) {
  return value;
}
template <typename T, Access access>
typename Argument<T, access>::Span on_device(const Argument<T, access>& argument) {
  return argument.span();
}

/** @brief How many of the arguments before each one are views. */
template <typename... Arguments>
[[nodiscard]] constexpr std::array<std::size_t, sizeof...(Arguments) + 1> view_numbers() {
  constexpr std::array<bool, sizeof...(Arguments) + 1> views{is_view<Arguments>..., false};
  std::array<std::size_t, sizeof...(Arguments) + 1> numbers{};
  for (std::size_t i = 0, before = 0; i < numbers.size(); before += views[i++] ? 1 : 0) {
    numbers[i] = before;
  }
  return numbers;
}

template <typename Argument>
void add_view(std::vector<View>& views, const Argument& argument) {
  if constexpr (is_view<Argument>) views.push_back(argument.view());
}

}  // namespace detail

/** @brief Enqueues `host` (on a virtual device) or `cuda` (on a GPU) with these arguments. */
template <auto host, auto cuda, typename... Arguments>
void enqueue(ModelContext& context, StreamRef stream, const Declared& declared,
             Arguments... arguments) {
  Operation operation;
  operation.name = declared.name;
  operation.cost = {.flops = declared.flops,
                    .bytes = declared.bytes,
                    .host_read = declared.host_read,
                    .host_written = declared.host_written};
  operation.views.reserve(sizeof...(Arguments) + 1);
  (detail::add_view(operation.views, arguments), ...);
  if (declared.blas != nullptr) operation.views.push_back(declared.blas->view());

  if (!context.cost_only()) {
    if (!context.gpu()) {
      operation.host = [arguments...](const KernelContext& kernel) {
        static constexpr auto numbers = detail::view_numbers<Arguments...>();
        [&]<std::size_t... i>(std::index_sequence<i...>) {
          host(detail::on_host(kernel, numbers[i], arguments)...);
        }
        (std::index_sequence_for<Arguments...>{});
      };
    } else {
#if MILLRACE_HAS_CUDA
      operation.cuda = [arguments..., blas = declared.blas](void* native) {
        cuda(Queue{native, blas}, detail::on_device(arguments)...);
      };
#endif
    }
  }
  context.device().launch(std::move(operation), stream.handle());
}

}  // namespace millrace::model
