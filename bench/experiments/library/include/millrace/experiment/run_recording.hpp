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
  Nanoseconds stands_since{0};  ///< the time from which the stream had nothing else to do
};

/** @brief An operation of one stream waited for one of another, which had ended at `from`. */
struct RecordedOrder {
  std::uint32_t from_stream = 0, to_stream = 0;  ///< indices into RunRecording::streams
  Nanoseconds from{0}, to{0};
};

/**
 * @brief Records the operations of a virtual device, and when the events of an allocation trace
 *        happened: what a picture of a run needs beyond its trace.
 *
 * It records while it lives, on one host thread. Memory is bounded: the first `kMost` operations
 * are kept, further ones are counted.
 */
class RunRecording final : private TimelineObserver, private DeviceObserver {
 public:
  static constexpr std::size_t kMost = 250'000;

  /**
   * @brief All of them outlive this object.
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
   * @brief The time of each event of the trace on the host's clock, ascending.
   *
   * An event has the time of the first device call after it.
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
  std::unordered_map<std::uint64_t, std::pair<std::uint32_t, Nanoseconds>> ended_;  // by index
  std::map<std::pair<bool, std::string>, std::uint32_t, std::less<>> indices_;
  std::map<std::uint32_t, Nanoseconds> last_ends_;
};

/** @brief Where the newest steps of a loop begin in its trace. */
class StepMarks {
 public:
  /** Steps that are kept: with more, the oldest half is dropped. */
  static constexpr std::size_t kMost = 2'000;

  /** @param trace  outlives this object */
  explicit StepMarks(const AllocationTrace& trace) : trace_(trace) { add(1); }

  /** @brief The host has enqueued all of a step. */
  void step_done() { steps_done(newest_); }
  /**
   * @brief The same for several steps at once, of which the trace does not tell one from another.
   * @param steps  how many the run has had, those before this trace included
   */
  void steps_done(std::uint64_t steps) {
    if (steps >= newest_) add(steps + 1);
  }
  /** @brief The loop goes on after so many steps, which are not in this trace. */
  void continue_after(std::uint64_t steps) {
    marks_.clear();
    add(steps + 1);
  }
  /** @brief Each step begins at its mark. What follows the last one is "end". */
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

/** @brief A run that has ended, while its trace is still there. */
struct RecordedRun {
  const AllocationTrace& trace;
  const RunRecording& recording;
  const std::map<StreamId, std::string>& streams;  ///< names
  const Ladder& ladder;
  /// Peak of the free bytes that main could not use, at the ends of steps; std::nullopt: not known.
  std::optional<std::size_t> stranded_peak{};
  unsigned rank = 0;
  std::vector<AllocationTrace::Mark> steps{};  ///< as StepMarks has them
};

/** @brief Is called at the end of a run on a virtual device, on the thread of the run. */
using RunRecorder = std::function<void(const RecordedRun&)>;

}  // namespace millrace::experiment
