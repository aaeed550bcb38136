#pragma once

#include <string>

#include "millrace/observe/trace_record.hpp"

namespace millrace::cli {

/** @brief A file format for an allocator's trace, and the option that selects it. */
struct TraceForm {
  const char* option;
  const char* name;  ///< the name of the format in messages
  std::string (*render)(const AllocationTrace& trace, const RecordedMemory& memory);
};

/** @brief The trace of an allocator, as a file for `millrace replay` and `millrace explain`. */
[[nodiscard]] std::string render_trace(const AllocationTrace& trace, const RecordedMemory& memory);
/** @brief The same as a PyTorch snapshot. */
[[nodiscard]] std::string render_snapshot(const AllocationTrace& trace,
                                          const RecordedMemory& memory);

inline constexpr TraceForm kRecordForm{"--record", "trace", render_trace};
inline constexpr TraceForm kSnapshotForm{"--snapshot", "snapshot", render_snapshot};

}  // namespace millrace::cli
