#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::trace {
struct AllocationLog;
}

namespace millrace::cli {

struct ExplainedDevice;
struct ExplainedFile;

/** @brief A change that would have reserved less. */
struct Advice {
  std::string change;       ///< what to do: "set expandable_segments:True"
  std::string cost;         ///< what it costs
  std::string row;          ///< the row that shows it: "millrace, one stream"; "" for a bound
  std::uint64_t saves = 0;  ///< bytes of the peak: what `baseline` is above the row
  bool at_most = false;     ///< an upper bound; otherwise a replay has shown it
  bool serves = false;      ///< its replay serves the last request that failed
};

/** @brief Whether the program had expandable segments, at least for a time. */
[[nodiscard]] bool uses_expandable_segments(const trace::AllocationLog& log);

/**
 * @brief The changes that are worth making, the one that saves most first.
 *
 * If a request failed, changes whose replays serve it come before all others. Those that a row
 * shows come before bounds. A row that needs two changes is the advice if it saves 1% more than
 * every row that needs one. No change is in effect already, as far as the log shows.
 */
[[nodiscard]] std::vector<Advice> advise(const ExplainedFile& file, const ExplainedDevice& device);

/**
 * @brief What savings are compared with: the recorded peak; std::nullopt if it is not known.
 *
 * If a replay of PyTorch's own decisions needs less than was recorded, the rest is cache from
 * before the log, with which no row starts. Then it is what that replay reserves. The same holds
 * for a run of Millrace's and the policy that it seems to have had: `millrace` if streams got
 * memory of other streams, and `torch` otherwise.
 */
[[nodiscard]] std::optional<std::uint64_t> baseline(const ExplainedFile& file,
                                                    const ExplainedDevice& device);

/** @brief Whether Millrace wrote the log about its own allocators: no recorded CUDA program ran. */
[[nodiscard]] bool is_own_run(const trace::AllocationLog& log);

/** @brief Whether the log is PyTorch's own: a snapshot whose allocator does not pass memory between
 *         streams, as Millrace's does. */
[[nodiscard]] bool is_of_torch(const ExplainedFile& file, const ExplainedDevice& device);

}  // namespace millrace::cli
