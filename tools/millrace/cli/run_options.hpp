#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"

/// @file
/// Options that several commands have. Each throws UsageError.

namespace millrace::cli {

inline constexpr std::array kWaits{Waits::coarse, Waits::precise};

/** @brief `--device`: a virtual one, or a GPU. */
[[nodiscard]] FootprintDevice read_device(const std::string& name);
/** @brief `--allocator`: a list, or "all". */
[[nodiscard]] std::vector<std::string> read_allocators(const std::string& text);
/** @brief `--run-ahead` */
[[nodiscard]] unsigned read_run_ahead(const std::string& text);

/** @brief `--cache-load-factor` and `--cache-policy`, as typed. */
struct CacheArguments {
  std::optional<std::string> load_factor, policy;
};
/** @param always  tables are cached, with or without a load factor */
[[nodiscard]] std::optional<TableCache> read_cache(const CacheArguments& given, bool always);

}  // namespace millrace::cli
