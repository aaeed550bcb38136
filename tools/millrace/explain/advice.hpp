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

/** @brief A change that would have reserved fewer bytes. */
struct Advice {
  std::string change;       ///< an instruction: "set expandable_segments:True"
  std::string cost;         ///< the cost of the change
  std::string row;          ///< its row: "millrace, one stream"; "" for a bound
  std::uint64_t saves = 0;  ///< bytes of the peak: `baseline` minus the row
  bool at_most = false;     ///< an upper bound; otherwise a replay has shown it
  bool serves = false;      ///< its replay serves the last request that failed
};

/** @brief Whether the program used expandable segments, at least for a time. */
[[nodiscard]] bool uses_expandable_segments(const trace::AllocationLog& log);

/**
 * @brief The changes worth making. The change that saves most comes first.
 *
 * If a request failed, changes that serve it in a replay come first. Changes that a replay has
 * shown come before bounds. A row with two changes becomes the first advice only if it saves 1%
 * more than every row with one change. Changes that the log shows to be in effect are left out.
 */
[[nodiscard]] std::vector<Advice> advise(const ExplainedFile& file, const ExplainedDevice& device);

/**
 * @brief The bytes from which savings are computed: the recorded peak. std::nullopt if it is
 *        unknown.
 *
 * If a replay of PyTorch's own decisions needs fewer bytes than recorded, the difference is cache
 * from before the log. No row starts with that cache, so the replay's bytes are the baseline. The
 * same holds for a run of Millrace's own allocators. Its policy is then assumed to be `millrace` if
 * streams reused memory of other streams, and otherwise `torch`.
 */
[[nodiscard]] std::optional<std::uint64_t> baseline(const ExplainedFile& file,
                                                    const ExplainedDevice& device);

/** @brief Whether Millrace wrote the log about its own allocators, without a recorded CUDA program.
 */
[[nodiscard]] bool is_own_run(const trace::AllocationLog& log);

/** @brief Whether the log is PyTorch's own: a snapshot whose allocator does not move memory between
 *         streams, as Millrace's does. */
[[nodiscard]] bool is_of_torch(const ExplainedFile& file, const ExplainedDevice& device);

}  // namespace millrace::cli
