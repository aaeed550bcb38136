#pragma once

#include <string>

#include "cli/output.hpp"
#include "cli/trace_output.hpp"
#include "footprint/options.hpp"
#include "millrace/experiment/footprint.hpp"

namespace millrace::cli {

/** @brief The file of `--record` or `--snapshot`: the only row's run with the first seed. */
class FootprintTrace {
 public:
  /** @throws UsageError if there are several rows, if the device is a GPU, or like `Output` */
  FootprintTrace(const TraceForm& form, const std::string& file, const FootprintOptions& options);

  /** @brief Stores the run; for FootprintWatch::recorded. */
  void keep(const experiment::RecordedRun& recorded);

  /** @brief Writes the file; does nothing if the run failed. @throws UsageError like `Output` */
  void write() const;

 private:
  const TraceForm form_;
  const DeviceDescription& device_;
  Output output_;
  std::string text_;
};

}  // namespace millrace::cli
