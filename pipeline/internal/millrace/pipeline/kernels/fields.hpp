#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "millrace/pipeline/kernels/array_view.hpp"

/// @file
/// for_each_view(): the views of a kernel's arguments, found in a struct without a list of them.

namespace millrace::model {
namespace detail {

struct AnyField {
  template <typename T>
  operator T() const;  // NOLINT: whatever the field is; never defined
};

template <typename S, std::size_t... i>
[[nodiscard]] constexpr bool takes_fields(std::index_sequence<i...>) {
  return requires { S{(static_cast<void>(i), AnyField{})...}; };
}

inline constexpr std::size_t kMostFields = 12;

/** @brief Fields of an aggregate: as many as an initializer of it may have. */
template <typename S, std::size_t count = kMostFields + 1>
[[nodiscard]] constexpr std::size_t field_count() {
  if constexpr (takes_fields<S>(std::make_index_sequence<count>{})) {
    return count;
  } else {
    return field_count<S, count - 1>();
  }
}

// Structured bindings name as many fields as are written down: one line for each number of fields.
template <typename S, typename Visit>
void for_each_field(S& s, const Visit& visit) {
  constexpr std::size_t count = field_count<std::remove_const_t<S>>();
  static_assert(count <= kMostFields, "more fields than are visited: group some in a struct");
  const auto all = [&](auto&... fields) { (visit(fields), ...); };
  // clang-format off
  if constexpr (count == 1) { auto& [a] = s; all(a); }
  if constexpr (count == 2) { auto& [a, b] = s; all(a, b); }
  if constexpr (count == 3) { auto& [a, b, c] = s; all(a, b, c); }
  if constexpr (count == 4) { auto& [a, b, c, d] = s; all(a, b, c, d); }
  if constexpr (count == 5) { auto& [a, b, c, d, e] = s; all(a, b, c, d, e); }
  if constexpr (count == 6) { auto& [a, b, c, d, e, f] = s; all(a, b, c, d, e, f); }
  if constexpr (count == 7) { auto& [a, b, c, d, e, f, g] = s; all(a, b, c, d, e, f, g); }
  if constexpr (count == 8) { auto& [a, b, c, d, e, f, g, h] = s; all(a, b, c, d, e, f, g, h); }
  if constexpr (count == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = s; all(a, b, c, d, e, f, g, h, i);
  }
  if constexpr (count == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = s; all(a, b, c, d, e, f, g, h, i, j);
  }
  if constexpr (count == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = s; all(a, b, c, d, e, f, g, h, i, j, k);
  }
  if constexpr (count == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = s; all(a, b, c, d, e, f, g, h, i, j, k, l);
  }
  // clang-format on
}

template <typename T>
inline constexpr bool is_view = false;
template <typename T>
inline constexpr bool is_view<ArrayView<T>> = true;

}  // namespace detail

/**
 * @brief Calls `visit(view)` for each view of a kernel's argument, in the order of the fields: for
 *        the argument itself if it is a view; for those of its fields, and of theirs, if it is a
 *        struct. Plain values have none.
 */
template <typename Value, typename Visit>
void for_each_view(Value& value, const Visit& visit) {
  using Type = std::remove_const_t<Value>;
  if constexpr (detail::is_view<Type>) {
    visit(value);
  } else if constexpr (std::is_class_v<Type> && std::is_aggregate_v<Type>) {
    detail::for_each_field(value, [&](auto& field) { for_each_view(field, visit); });
  }
}

}  // namespace millrace::model
