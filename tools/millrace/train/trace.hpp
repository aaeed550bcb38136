#pragma once

#include <cstdint>
#include <string>

#include "cli/output.hpp"
#include "cli/trace_output.hpp"
#include "millrace/experiment/run_recording.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"

namespace millrace::cli {

/** @brief The file of `--record` or `--snapshot`: the trace of the first rank's allocators. */
class TrainTrace {
 public:
  /** @throws UsageError like `Output` */
  TrainTrace(const TraceForm& form, const std::string& file);

  /** @brief Stores the trace of a device when this object is destroyed, also after an exception. */
  class Watch {
   public:
    /** @param trace  nullptr: nothing is stored */
    Watch(TrainTrace* trace, TrainingDevice& device)
        : trace_(trace), device_(device), steps_(device.trace()) {}
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /** @brief Implements `TrainListener::steps_done`. */
    void steps_done(std::uint64_t steps) {
      has_begun_ ? steps_.steps_done(steps) : steps_.continue_after(steps);
      has_begun_ = true;
    }

   private:
    TrainTrace* const trace_;
    TrainingDevice& device_;
    experiment::StepMarks steps_;
    bool has_begun_ = false;
  };

  /** @brief Writes the trace; does nothing without a device. @throws UsageError like `Output` */
  void write() const;
  /** @brief Like `write`, but ignores a file error: another error is already being reported. */
  void write_after_error() const noexcept;

 private:
  const TraceForm form_;
  Output output_;
  std::string text_;
};

}  // namespace millrace::cli
