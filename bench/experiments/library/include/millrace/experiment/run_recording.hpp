#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/ladder.hpp"

namespace millrace::experiment {

/** @brief An operation that a stream has run. */
struct RecordedOperation {
  std::uint32_t name = 0;    ///< index into RunRecording::names
  std::uint32_t stream = 0;  ///< index into RunRecording::streams
  Engine engine = Engine::stream;
  Nanoseconds begin{0}, end{0};
  Nanoseconds stands_since{0};  ///< since when the stream had no other work
};

/** @brief An operation waited for another stream's operation, which ended at `from`. */
struct RecordedOrder {
  std::uint32_t from_stream = 0, to_stream = 0;  ///< indices into RunRecording::streams
  Nanoseconds from{0}, to{0};
};

/**
 * @brief Records the operations of a virtual device, and the times of the events of an allocation
 *        trace. A picture of a run needs both in addition to the trace.
 *
 * It records during its lifetime, on one host thread. Memory is bounded: it keeps the first `kMost`
 * operations, and only counts later ones.
 */
class RunRecording final : private TimelineObserver, private DeviceObserver {
 public:
  static constexpr std::size_t kMost = 250'000;

  /**
   * @brief All arguments must outlive this object.
   * @param ordinal  number of the device in its machine; other devices' operations are not recorded
   */
  RunRecording(VirtualMachine& machine, Device& device, const AllocationTrace& trace,
               unsigned ordinal = 0);
  ~RunRecording() override;
  RunRecording(const RunRecording&) = delete;
  RunRecording& operator=(const RunRecording&) = delete;

  std::vector<std::string> names, streams;
  std::vector<RecordedOperation> operations;
  std::vector<RecordedOrder> orders;
  std::size_t left_out = 0;

  /**
   * @brief The time of each event of the trace on the host's clock, in ascending order.
   *
   * An event has the time of the next device call.
   */
  [[nodiscard]] std::vector<Nanoseconds> times() const;

 private:
  void executed(const ExecutedOperation& operation) override;
  void after(Call call) override;
  std::uint32_t index_of(std::vector<std::string>& list, std::string_view name);

  VirtualMachine& machine_;
  Device& device_;
  const AllocationTrace& trace_;
  const unsigned ordinal_;
  std::vector<std::pair<TracePosition, Nanoseconds>> times_;
  std::unordered_map<std::uint64_t, std::pair<std::uint32_t, Nanoseconds>> ended_;  // by number
  std::map<std::pair<bool, std::string>, std::uint32_t, std::less<>> indices_;
  std::map<std::uint32_t, Nanoseconds> last_ends_;
};

/** @brief The positions in a trace where the newest steps of a loop begin. */
class StepMarks {
 public:
  /** Maximum number of steps. Beyond it, the older half is dropped. */
  static constexpr std::size_t kMost = 2'000;

  /** @param trace  must outlive this object */
  explicit StepMarks(const AllocationTrace& trace) : trace_(trace) { add(1); }

  /** @brief Call it when the host has enqueued all operations of a step. */
  void step_done() { steps_done(newest_); }
  /**
   * @brief Call it after several steps that the trace does not distinguish.
   * @param steps  steps of the run so far, including those before this trace
   */
  void steps_done(std::uint64_t steps) {
    if (steps >= newest_) add(steps + 1);
  }
  /** @brief The loop continues after `steps` steps that are not in this trace. */
  void continue_after(std::uint64_t steps) {
    marks_.clear();
    add(steps + 1);
  }
  /** @brief The marks. Each step begins at its mark. The mark after the last step is "end". */
  [[nodiscard]] std::vector<AllocationTrace::Mark> marks() const {
    std::vector<AllocationTrace::Mark> marks;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
      const bool is_last = i + 1 == marks_.size();
      marks.push_back({marks_[i].begin, is_last ? "end" : name(i)});
    }
    return marks;
  }

 private:
  struct Step {
    TracePosition begin = 0;
    std::uint64_t number = 0;
  };

  [[nodiscard]] std::string name(std::size_t i) const {
    const std::uint64_t first = marks_[i].number, last = marks_[i + 1].number - 1;
    return first == last ? "step " + std::to_string(first)
                         : "steps " + std::to_string(first) + " to " + std::to_string(last);
  }
  void add(std::uint64_t number) {
    newest_ = number;
    if (marks_.size() > kMost)
      marks_.erase(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(kMost / 2));
    marks_.push_back({std::max<TracePosition>(trace_.position(), 1), number});
  }

  const AllocationTrace& trace_;
  std::uint64_t newest_ = 1;
  std::vector<Step> marks_;
};

/** @brief A run that has ended, with its trace still in memory. */
struct RecordedRun {
  const AllocationTrace& trace;
  const RunRecording& recording;
  const std::map<StreamId, std::string>& streams;  ///< names of the streams
  const Ladder& ladder;
  /// Peak of free bytes that main could not use, at the ends of steps; std::nullopt: unknown.
  std::optional<std::size_t> stranded_peak{};
  unsigned rank = 0;
  std::vector<AllocationTrace::Mark> steps{};  ///< from StepMarks
};

/** @brief Called at the end of a run on a virtual device, on the thread of the run. */
using RunRecorder = std::function<void(const RecordedRun&)>;

}  // namespace millrace::experiment
