#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "table/functions.hpp"

namespace millrace::virtual_cuda {

/** @brief One row of the table in driver.def. */
struct DriverRow {
  std::string_view symbol;  ///< name of the export: "cuMemAlloc_v2"
  std::string_view base;    ///< name for cuGetProcAddress: "cuMemAlloc"
  int since;                ///< first version of CUDA with these parameters: 3020
  Twin twin;
  Capability capability;
  std::string_view note;
};

enum class DriverFunction : unsigned short {
#define MILLRACE_DRIVER(symbol, base, since, twin, capability, note) symbol,
#include "table/driver.def"
#undef MILLRACE_DRIVER
  count_
};

inline constexpr std::size_t kDriverFunctions = static_cast<std::size_t>(DriverFunction::count_);

/** @brief The table, in the order of `DriverFunction`. */
[[nodiscard]] std::span<const DriverRow> driver_functions() noexcept;

}  // namespace millrace::virtual_cuda
