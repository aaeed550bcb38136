#pragma once

#include <cstddef>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "millrace/config.hpp"
#include "millrace/device/operation.hpp"
#include "millrace/pipeline/kernels/array_view.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "millrace/pipeline/kernels/fields.hpp"
#include "millrace/pipeline/model/model_context.hpp"

/// @file
/// enqueue(): an operation, declared once. Its arguments are views (reads, writes, updates), plain
/// values, and structs of both. The host kernel gets them with views of memory that it may touch,
/// the CUDA kernel as they are, after the queue to enqueue on.

namespace millrace::model {

template <typename T>
[[nodiscard]] View view_of(const ArrayView<T>& view) {
  return {const_cast<std::remove_const_t<T>*>(view.address), view.count * sizeof(T), view.access};
}

/** @brief What an operation is called and costs; and with which handle it multiplies, if it does.
 */
struct Declared {
  const char* name;
  double flops = 0, bytes = 0;
  double host_read = 0, host_written = 0;  ///< as Cost
  const BlasHandle* blas = nullptr;
};

// These two are not templates, and not inlined: there are some hundred operations, and each is a
// function of its own.
[[nodiscard, gnu::noinline]] inline Operation declare(const Declared& declared) {
  Operation operation;
  operation.name = declared.name;
  operation.cost = {.flops = declared.flops,
                    .bytes = declared.bytes,
                    .host_read = declared.host_read,
                    .host_written = declared.host_written};
  return operation;
}
[[gnu::noinline]] inline void add_view(Operation& operation, const View& view) {
  operation.views.push_back(view);
}

/**
 * @brief Enqueues `host` (on a virtual device) or `cuda` (on a GPU) with these arguments: views,
 *        plain values, and structs of both.
 */
template <auto host, auto cuda, typename... Arguments>
void enqueue(ModelContext& context, StreamRef stream, const Declared& declared,
             const Arguments&... arguments) {
  static_assert((std::size_t{0} + ... + std::size_t{detail::is_view<Arguments>}) <= 2,
                "views in a row are easy to swap: name more than two in a struct");
  Operation operation = declare(declared);
  (for_each_view(arguments, [&](const auto& view) { add_view(operation, view_of(view)); }), ...);
  if (declared.blas != nullptr) add_view(operation, declared.blas->view());

  if (!context.cost_only()) {
    if (!context.gpu()) {
      operation.host = [arguments...](const KernelContext& kernel) {
        std::tuple<Arguments...> on_host{arguments...};
        std::size_t number =
            0;  // of the view: they are met in the order in which they were declared
        const auto resolve = [&]<typename T>(ArrayView<T>& view) {
          const std::span<T> memory = kernel.as<T>(number++);
          view.address = memory.data();
          view.count = memory.size();
        };
        std::apply(
            [&](auto&... all) {
              (for_each_view(all, resolve), ...);
              host(all...);
            },
            on_host);
      };
    } else {
#if MILLRACE_HAS_CUDA
      operation.cuda = [arguments..., blas = declared.blas](void* native) {
        cuda(Queue{native, blas}, arguments...);
      };
#endif
    }
  }
  context.device().launch(std::move(operation), stream.handle());
}

}  // namespace millrace::model
