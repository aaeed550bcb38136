#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "observe/replay/replay_lanes.hpp"

namespace millrace {

/** @brief What a snapshot of the replay takes from the log: stacks, labels and annotations. */
class SnapshotNotes {
 public:
  /** @param trace  the trace of the replay's allocator */
  SnapshotNotes(const trace::AllocationLog& log, std::uint32_t device, const AllocationTrace& trace)
      : log_(log), device_(device), trace_(trace) {}

  /** @brief Notes that the newest block of the trace is this block of the log. */
  void note_block(std::uint32_t block);
  /** @brief Adds the annotations of the recorded program up to a time, on the replay's clock. */
  void note_marks(std::int64_t time_us);

  [[nodiscard]] trace::TorchSnapshot snapshot(const ReplayLanes& lanes) const;

 private:
  [[nodiscard]] const trace::LoggedBlock* logged(const TracedBlock& block) const;

  const trace::AllocationLog& log_;
  const std::uint32_t device_;
  const AllocationTrace& trace_;
  std::unordered_map<std::uint64_t, std::uint32_t> blocks_;  // blocks of the log, by traced id
  std::vector<trace::TorchMark> marks_;                      // on the replay's clock
  std::size_t next_mark_ = 0;                                // index into the log's marks
};

}  // namespace millrace
