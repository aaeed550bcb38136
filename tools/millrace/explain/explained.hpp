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

/// Allocators of rows that only a trace of Millrace's has: bounds of the driver's pool, as all work
/// may be complete at once, or none before a call of the program waits for it.
inline constexpr const char* kDriverLeast = "driver, at least";
inline constexpr const char* kDriverMost = "driver, at most";

/** @brief What an allocator would have reserved for the requests of a log. */
struct WhatIfRow {
  std::string allocator;
  ProgramChange change = ProgramChange::none;
  std::optional<std::uint64_t> reserved;
  std::uint64_t waits = 0;  ///< that the allocator would have inserted between streams
  /// Whether it serves the last request that the recorded allocator could not serve; std::nullopt:
  /// none failed, or the size of the device is not known.
  std::optional<bool> serves_failed{};
  std::string failure;               ///< why there is no figure
  std::vector<std::string> notes{};  ///< what the replay does not repeat as it was

  [[nodiscard]] std::string name() const;  ///< "torch", "torch, one stream"
};

/** @brief The ladder of a device: that of a replay which reserves what was recorded, if one does.
 */
struct ExplainedLadder {
  std::string of;            ///< the allocator that was replayed
  bool is_recorded = false;  ///< the replay reserves as much as was recorded
  Ladder ladder;
};

/** @brief One device of an explained file. */
struct ExplainedDevice {
  std::string name;  ///< "device 0", "pinned host memory"
  DeviceExplanation memory;
  std::vector<WhatIfRow> rows;     ///< empty: left out, see `left_out`
  ReplayMemory limit;              ///< the device that all rows are replayed on
  std::vector<std::string> notes;  ///< what replays of the unchanged program do not repeat
  std::optional<std::uint64_t>
      packed;  ///< the least that a layout with knowledge of the future had
  std::optional<ExplainedLadder> ladder{};  ///< std::nullopt: not computed
  std::string left_out;                     ///< what is not computed, and why; "" if all is
  std::vector<Advice> advice;               ///< the change that saves most is first

  [[nodiscard]] const WhatIfRow* find(std::string_view allocator, ProgramChange change) const;
};

/** @brief A file and the explanation of its memory. */
struct ExplainedFile {
  std::string file;
  trace::AllocationLog log;
  Explanation explanation;  ///< its devices are in `devices`
  std::vector<ExplainedDevice> devices;
  std::vector<ExplainedFile> host;  ///< its pinned host memory, if it was recorded: none or one

  [[nodiscard]] const std::string& site(const MemoryShare& share) const {
    return explanation.sites[share.site].name;
  }
};

/** @brief Which replays `explain` makes. */
enum class Replays {
  limited,  ///< rows, ladder and packed layout, each of a log that is not too long for it
  rows,     ///< rows only, of a log that is not too long
  all,
  none,
};

/**
 * @brief Reads a file and explains it.
 * @throws UsageError if it cannot be read
 */
[[nodiscard]] ExplainedFile explain_file(const std::string& file, Replays replays);

/** @brief Explains a log that was read. @param name  of its file, or of what was run */
[[nodiscard]] ExplainedFile explain_log(const std::string& name, trace::AllocationLog log,
                                        Replays replays);

}  // namespace millrace::cli
