#include "cli/read_log.hpp"

#include "cli/error.hpp"
#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/read_trace.hpp"

namespace millrace::cli {

trace::AllocationLog read_log(const std::string& file) {
  try {
    return trace::read_trace(file);
  } catch (const trace::ParseError& error) {
    const std::string what = error.what(), formats = trace::trace_formats();
    const bool listed = what.find(formats) != std::string::npos;
    throw UsageError{what, "",
                     !error.format().empty() ? error.format()
                     : listed                ? "a file in one of these formats"
                                             : formats};
  }
}

}  // namespace millrace::cli
