#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cli {

struct ExplainedDevice;
struct ExplainedFile;

/** @brief A change that would have reserved less. */
struct Advice {
  std::string change;       ///< what to do: "set expandable_segments:True"
  std::string cost;         ///< what it costs
  std::uint64_t saves = 0;  ///< bytes of the peak
  bool at_most = false;     ///< an upper bound; otherwise the difference between two replays
};

/**
 * @brief The changes that are worth making, the one that saves most first.
 *
 * None of them is in effect already, as far as the log shows it.
 */
[[nodiscard]] std::vector<Advice> advise(const ExplainedFile& file, const ExplainedDevice& device);

}  // namespace millrace::cli
