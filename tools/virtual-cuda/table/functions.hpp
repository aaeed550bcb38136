#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace millrace::virtual_cuda {

/** @brief How the virtual runtime implements a function of CUDA's runtime. */
enum class Capability {
  real,         ///< does what CUDA documents
  approximate,  ///< does so, except for the differences in the note
  no_op,        ///< succeeds without checks: the virtual GPU has no such feature
  refused,      ///< prints its name on standard error and returns cudaErrorNotSupported
};

/** @brief "real", "approximate", "no-op", "refused". */
[[nodiscard]] std::string_view name_of(Capability capability) noexcept;

/** @brief The suffix of the variant for per-thread default streams. */
enum class Twin { none, ptsz, ptds };
/** @brief The runtime libraries that export a function. */
enum class Library { v12, v13, both };

/** @brief One row of the table in functions.def. */
struct FunctionRow {
  std::string_view name;
  Capability capability;
  Twin twin;
  Library library;
  std::string_view note;
};

enum class Function : unsigned short {
#define MILLRACE_FUNCTION(name, capability, twin, library, note) name,
#include "table/functions.def"
#undef MILLRACE_FUNCTION
  count_
};

inline constexpr std::size_t kFunctions = static_cast<std::size_t>(Function::count_);

/** @brief The table, in the order of `Function`. */
[[nodiscard]] std::span<const FunctionRow> functions() noexcept;

}  // namespace millrace::virtual_cuda
