#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "millrace/pipeline/kernels/fields.hpp"
#include "millrace/virtual_cuda.h"
#include "test/kernels/machine.hpp"

/**
 * @file
 * The table of host implementations of the project's kernels, for the virtual CUDA runtime. It has
 * a row for each kernel. A row has one or both of:
 *
 * - the kernel's own code, compiled for the host and run by the machine of test/kernels with the
 *   grid that was launched;
 * - the host kernel of the operation, if one kernel does the whole operation. Its sums run in the
 *   order of the virtual device, so results have the same bits. It is faster.
 *
 * A row with both uses the host kernel, unless MILLRACE_KERNELS_OWN_CODE is set.
 */

namespace millrace::test::virtual_kernels {

/** @brief How one kernel is implemented. */
struct Row {
  std::string pattern;  ///< a pattern of names, as in MillraceKernel
  std::vector<std::size_t> argument_bytes;
  void (*run)(const MillraceLaunch*) = nullptr;
  void (*cost)(const MillraceLaunch*, MillraceCost*) = nullptr;
};

/** @brief The rows of each source of kernels. */
void add_rows_of_allocator(std::vector<Row>& rows);
void add_rows_of_capture(std::vector<Row>& rows);
void add_rows_of_data(std::vector<Row>& rows);
void add_rows_of_dense(std::vector<Row>& rows);
void add_rows_of_look_up(std::vector<Row>& rows);
void add_rows_of_row_cache(std::vector<Row>& rows);
void add_rows_of_sharding(std::vector<Row>& rows);
void add_rows_of_sort(std::vector<Row>& rows);
void add_rows_of_tests(std::vector<Row>& rows);
void add_rows_of_update_rows(std::vector<Row>& rows);

/** @brief True if rows with a host kernel run the kernel's own code instead. */
[[nodiscard]] bool own_code();
/** @brief The runtime that loaded the library. */
[[nodiscard]] const MillraceVirtualCuda& runtime();
/** @brief Ends the process, because the code of a kernel or a row is wrong. */
[[noreturn]] void fail(const MillraceLaunch& launch, const char* what);

/** @brief A kernel got an address that is not memory. The device is lost, as a GPU would be. */
struct IllegalAddress {
  const void* address;
};
/** @throws IllegalAddress unless the first and the last byte are memory that a kernel may touch */
void require_memory(const void* address, std::size_t bytes);
/** @brief Runs `kernel`, and loses the device if it throws IllegalAddress. */
void run_kernel(const MillraceLaunch& launch, const std::function<void()>& kernel);

/**
 * @brief The demangled name of a kernel, with the characters escaped that fnmatch interprets.
 * `mangled` is the name of Tag<kernel>. The result includes the parameters if the name does.
 */
[[nodiscard]] std::string pattern_of(const char* mangled);

/**
 * @brief Replaces device addresses in a kernel's argument by the addresses of the data on the host,
 * in pointers and in the fields of structs. `each_of(value)` gives the elements of an array.
 * @throws IllegalAddress
 */
template <typename Value>
void reach(Value& value) {
  if constexpr (model::detail::is_view<Value>) {
    require_memory(value.data(), value.size() * sizeof(value[0]));
    reach(value.address);
  } else if constexpr (std::is_pointer_v<Value>) {
    value = static_cast<Value>(runtime().data(value));
  } else if constexpr (requires { each_of(value); }) {
    for (auto& element : each_of(value)) reach(element);
  } else if constexpr (std::is_class_v<Value> && std::is_aggregate_v<Value>) {
    model::detail::for_each_field(value, [](auto& field) { reach(field); });
  }
}

/**
 * @brief An argument of a launch, with addresses that the host can use. Call it once per argument.
 */
template <typename Value>
[[nodiscard]] Value& argument(const MillraceLaunch& launch, std::size_t number) {
  auto& value = *static_cast<Value*>(launch.arguments[number]);
  reach(value);
  return value;
}

namespace detail {

template <auto kernel>
struct Tag {};

/** @brief The parameters of a kernel, from its type. */
template <typename Function>
struct Signature;

template <typename... Parameters>
struct Signature<void (*)(Parameters...)> {
  static std::vector<std::size_t> argument_bytes() { return {sizeof(Parameters)...}; }

  template <typename Use>
  static void with_arguments(const MillraceLaunch& launch, const Use& use) {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      std::tuple<Parameters...> all{*static_cast<Parameters*>(launch.arguments[i])...};
      (reach(std::get<i>(all)), ...);
      use(all);
    }
    (std::index_sequence_for<Parameters...>{});
  }
};

template <auto kernel>
void run_code(const MillraceLaunch* launch) {
  run_kernel(*launch, [launch] {
    Signature<decltype(kernel)>::with_arguments(*launch, [&](const auto& all) {
      kernels::run({{launch->grid[0], launch->grid[1]},
                    {launch->block[0], launch->block[1]},
                    launch->shared_bytes},
                   [&] { std::apply(kernel, all); });
    });
  });
}

template <auto kernel, auto host>
void run_host(const MillraceLaunch* launch) {
  run_kernel(*launch, [launch] {
    Signature<decltype(kernel)>::with_arguments(*launch,
                                                [](const auto& all) { std::apply(host, all); });
  });
}

}  // namespace detail

/** @brief The row of a kernel that runs its own code. */
template <auto kernel>
[[nodiscard]] Row own() {
  return {.pattern = pattern_of(typeid(detail::Tag<kernel>).name()),
          .argument_bytes = detail::Signature<decltype(kernel)>::argument_bytes(),
          .run = detail::run_code<kernel>};
}

/** @brief The row of a kernel whose host kernel `host` takes the same arguments. */
template <auto kernel, auto host>
[[nodiscard]] Row twin() {
  Row row = own<kernel>();
  if (!own_code()) row.run = detail::run_host<kernel, host>;
  return row;
}

/** @brief The row of a kernel whose work another kernel of its operation does as well. */
template <auto kernel>
[[nodiscard]] Row done_by_another() {
  return twin<kernel, [](const auto&...) {}>();
}

/** @brief Calls `function` with each type. */
template <typename... Types, typename Function>
void for_types(const Function& function) {
  (function.template operator()<Types>(), ...);
}
/** @brief Calls `function` with the types that ids and offsets may have. */
template <typename Function>
void for_ids_and_offsets(const Function& function) {
  for_types<std::int32_t, std::int64_t>([&]<typename Id>() {
    for_types<std::int32_t, std::int64_t>(
        [&]<typename Offset>() { function.template operator()<Id, Offset>(); });
  });
}

}  // namespace millrace::test::virtual_kernels
