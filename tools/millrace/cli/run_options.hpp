#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/data/copy_strategy.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/pipeline_kind.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"

/// @file
/// Options that several commands have. Each function throws UsageError for a value it refuses.

namespace millrace::cli {

/** @brief Maximum number of steps of a run. `num_batches` of a workload has the same limit. */
inline constexpr std::uint64_t kMostSteps = 1'000'000;

/**
 * @brief The help of `--device`: the built-in profiles, and GPUs.
 * @param profile  the default
 * @param gpus     whether the command also runs on GPUs
 * @param further  other names that the command accepts: "cuda:local"
 */
[[nodiscard]] std::string device_help(std::string_view profile, bool gpus,
                                      const std::vector<std::string>& further = {});
/** @brief The help of `--allocator` for a command that runs with one allocator. */
[[nodiscard]] std::string allocator_help(const std::string& standard);
/** @brief The names of all allocators: "torch, millrace, driver". */
[[nodiscard]] std::string allocator_names();
/** @brief The help of `--waits` for a command that runs with one wait mode. */
[[nodiscard]] std::string waits_help();
/** @brief Whether an option has one value, or a list of values that are compared. */
enum class Values { one, list };
/** @brief The help of `--lookup-position`. `fused` names the pipelines that have this option. */
[[nodiscard]] std::string lookup_position_help(const std::string& fused, Values values);
/** @brief The help of `--lookup-stream`. */
[[nodiscard]] std::string lookup_stream_help(const std::string& fused, Values values);
/** @brief The help of `--cache-policy`. */
[[nodiscard]] std::string cache_policy_help();
/** @brief The help of `--pipeline`: every kind with its summary, `standard` first. */
[[nodiscard]] std::string pipeline_help(PipelineKind standard);
/** @brief The names of the pipelines for which a trait holds: "a", "a or b". */
[[nodiscard]] std::string pipelines_with(bool PipelineTraits::*trait);
/**
 * @brief Refuses an option that depends on a trait if no chosen pipeline has the trait.
 * @throws UsageError if the option was `given`
 */
void refuse_without_trait(bool PipelineTraits::*trait, const std::vector<PipelineKind>& chosen,
                          std::string_view option, bool given);
/**
 * @brief Reads `--device`: a virtual device or a GPU.
 * @param further  other names that the command accepts, for the message: "cuda:local"
 */
[[nodiscard]] DeviceDescription read_device(const std::string& name,
                                            const std::vector<std::string>& further = {});
/** @brief Reads `--allocator`: a list, or "all". */
[[nodiscard]] std::vector<std::string> read_allocators(const std::string& text);
/** @brief Reads `--run-ahead`. */
[[nodiscard]] unsigned read_run_ahead(const std::string& text);

/** @brief The values of `--cache-load-factor` and `--cache-policy`, not checked yet. */
struct CacheArguments {
  std::optional<std::string> load_factor, policy;
};
/**
 * @brief Checks the two cache options.
 * @param always  cache the tables even without a load factor
 * @return std::nullopt if tables are not cached
 */
[[nodiscard]] std::optional<TableCache> read_cache(const CacheArguments& given, bool always);

}  // namespace millrace::cli
