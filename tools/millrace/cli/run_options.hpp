#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"

/// @file
/// Options that several commands have. Each throws UsageError.

namespace millrace::cli {

/** @brief Steps of a run, at most: as of a workload's `num_batches`. */
inline constexpr std::uint64_t kMostSteps = 1'000'000;

inline constexpr std::array kWaits{Waits::coarse, Waits::precise};

/** @brief Help of `--device`: the profiles that ship, and GPUs.
 *  @param profile  the default's */
[[nodiscard]] std::string device_help(std::string_view profile, bool gpus);
/** @brief `--device`: a virtual one, or a GPU. */
[[nodiscard]] DeviceDescription read_device(const std::string& name);
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
