#pragma once

#include <string>
#include <vector>

#include "train/options.hpp"

namespace millrace::cli {

/** @brief Values of --sharding that are no files. */
[[nodiscard]] std::vector<std::string> sharding_names();
/** @throws UsageError; also if this is one of several processes, and nothing says that they train
 *          together */
[[nodiscard]] RankOptions read_ranks(const TrainArguments& given);
/** @brief The device of this rank: of NCCL's a GPU; "cuda:local" is the one of its number on this
 *         host. @throws UsageError for one that the group can not be on */
[[nodiscard]] std::string device_name(const TrainArguments& given, const RankOptions& ranks);

}  // namespace millrace::cli
