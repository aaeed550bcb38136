#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/replay_memory.hpp"
#include "explain/advice.hpp"
#include "millrace/observe/explain.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/program_change.hpp"
#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::cli {

/// Rows for the driver's pool, only with a trace in Millrace's format. They are bounds: either work
/// completes immediately, or it completes only when a call of the program waits for it.
inline constexpr const char* kDriverLeast = "driver, at least";
inline constexpr const char* kDriverMost = "driver, at most";

/** @brief Bytes that an allocator would have reserved for the requests of a log. */
struct WhatIfRow {
  std::string allocator;
  ProgramChange change = ProgramChange::none;
  std::optional<std::uint64_t> reserved;
  std::uint64_t waits = 0;  ///< waits that the allocator would have inserted between streams
  /// Whether it serves the last request that failed on the recorded allocator. std::nullopt: no
  /// request failed, or the size of the device is unknown.
  std::optional<bool> serves_failed{};
  std::string failure;               ///< why there is no figure
  std::vector<std::string> notes{};  ///< differences between the replay and the recorded program

  [[nodiscard]] std::string name() const;  ///< "torch", "torch, one stream"
};

/** @brief The ladder of a device. It comes from a replay that reserves the recorded bytes, if one
 *         exists. */
struct ExplainedLadder {
  std::string of;            ///< name of the replayed allocator
  bool is_recorded = false;  ///< the replay reserves the recorded bytes
  Ladder ladder;
};

/** @brief One device of an explained file. */
struct ExplainedDevice {
  std::string name;  ///< "device 0", "pinned host memory"
  DeviceExplanation memory;
  std::vector<WhatIfRow> rows;     ///< empty: see `left_out`
  ReplayMemory limit;              ///< the device size of all replays
  std::vector<std::string> notes;  ///< how replays differ from the recording, by row
  std::optional<std::uint64_t>
      packed;  ///< bytes of the best layout; its search knows all later requests
  std::optional<ExplainedLadder> ladder{};  ///< std::nullopt: not computed
  std::string left_out;                     ///< what is not computed, and why; "": all is
  std::vector<Advice> advice;               ///< the change that saves most comes first

  [[nodiscard]] const WhatIfRow* find(std::string_view allocator, ProgramChange change) const;
};

/** @brief A file and the explanation of its memory. */
struct ExplainedFile {
  std::string file;
  trace::AllocationLog log;
  Explanation explanation;  ///< `devices` has its devices
  std::vector<ExplainedDevice> devices;
  std::vector<ExplainedFile> host;  ///< pinned host memory: empty, or one file

  [[nodiscard]] const std::string& site(const MemoryShare& share) const {
    return explanation.sites[share.site].name;
  }
};

/** @brief The replays that `explain` makes. */
enum class Replays {
  limited,  ///< rows, ladder and packed layout; each only if the log is short enough
  rows,     ///< rows only, if the log is short enough
  all,
  none,
};

/**
 * @brief Reads a file and explains it.
 * @throws UsageError if the file cannot be read
 */
[[nodiscard]] ExplainedFile explain_file(const std::string& file, Replays replays);

/** @brief Explains a log. @param name  name of its file or of the run */
[[nodiscard]] ExplainedFile explain_log(const std::string& name, trace::AllocationLog log,
                                        Replays replays);

}  // namespace millrace::cli
