#pragma once

#include <cstdint>
#include <string>

#include "cli/output.hpp"
#include "cli/trace_output.hpp"
#include "millrace/experiment/run_recording.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"

namespace millrace::cli {

/** @brief The file of `--record` or `--snapshot`: what the first rank's allocators did. */
class TrainTrace {
 public:
  /** @throws UsageError as `Output` */
  TrainTrace(const TraceForm& form, const std::string& file);

  /** @brief Keeps the trace of a device at its end, also if an exception ends it. */
  class Watch {
   public:
    /** @param trace  nullptr: nothing is kept */
    Watch(TrainTrace* trace, TrainingDevice& device)
        : trace_(trace), device_(device), steps_(device.trace()) {}
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    /** @brief As TrainListener has it. */
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

  /** @brief Writes the trace; nothing if there was no device. @throws UsageError as `Output` */
  void write() const;
  /** @brief As `write`, but a file that cannot be written is no error: there is another one. */
  void write_after_error() const noexcept;

 private:
  const TraceForm form_;
  Output output_;
  std::string text_;
};

}  // namespace millrace::cli
