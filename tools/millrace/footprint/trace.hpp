#pragma once

#include <string>

#include "cli/output.hpp"
#include "cli/trace_output.hpp"
#include "footprint/options.hpp"
#include "millrace/experiment/footprint.hpp"

namespace millrace::cli {

/** @brief The file of `--record` or `--snapshot`: the run of the only row with the first seed. */
class FootprintTrace {
 public:
  /** @throws UsageError if there are several rows, or the device is a GPU, or as `Output` */
  FootprintTrace(const TraceForm& form, const std::string& file, const FootprintOptions& options);

  /** @brief For FootprintWatch::recorded. */
  void keep(const experiment::RecordedRun& recorded);

  /** @brief Writes the file; nothing if the run ran out of memory. @throws UsageError as Output */
  void write() const;

 private:
  const TraceForm form_;
  const DeviceDescription& device_;
  Output output_;
  std::string text_;
};

}  // namespace millrace::cli
