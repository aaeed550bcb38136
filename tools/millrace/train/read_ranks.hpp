#pragma once

#include <string>
#include <vector>

#include "train/options.hpp"

namespace millrace::cli {

/** @brief The names that --sharding accepts. Any other value is a file. */
[[nodiscard]] std::vector<std::string> sharding_names();
/**
 * @brief Reads the options about ranks.
 * @throws UsageError also if mpirun or torchrun started several processes, but no option makes them
 *         train together
 */
[[nodiscard]] RankOptions read_ranks(const TrainArguments& given);
/** @brief Name of --device for the GPU whose number is the rank's number on this host. */
inline constexpr const char* kLocalDevice = "cuda:local";
/**
 * @brief The device of this rank. With NCCL it is a GPU.
 *
 * It replaces kLocalDevice by the number of a GPU.
 * @throws UsageError for a device that the group does not support
 */
[[nodiscard]] std::string device_name(const TrainArguments& given, const RankOptions& ranks);

}  // namespace millrace::cli
