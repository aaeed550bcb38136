#include "train/exit_code.hpp"

#include <algorithm>

#include "cli/exit_codes.hpp"

namespace millrace::cli {

int exit_code_of(const TrainResult& result, int interrupted) {
  const auto& races = result.accounting.races;
  const bool raced =
      (races && !races->empty()) ||
      std::ranges::any_of(result.ranks, [](const RankMemory& rank) { return !rank.races.empty(); });
  if (raced) return number_of(ExitCode::raced);
  if (!result.stream_complete) return number_of(ExitCode::incomplete);
  return result.interrupted ? interrupted : 0;
}

}  // namespace millrace::cli
