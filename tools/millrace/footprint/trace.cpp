#include "footprint/trace.hpp"

#include "cli/error.hpp"
#include "cli/trace_output.hpp"

namespace millrace::cli {
namespace {

constexpr const char* kRecord = "--record";

const DeviceDescription& checked(const FootprintOptions& options) {
  check_one_run(options, kRecord, "trace");
  if (options.device.modelled) return options.device;
  throw UsageError{"this command records runs on virtual devices only", kRecord,
                   "with --device virtual:h200; or millrace run --record FILE -- PROGRAM, for a "
                   "program on a GPU"};
}

}  // namespace

FootprintTrace::FootprintTrace(const std::string& file, const FootprintOptions& options)
    : device_(checked(options)), output_(file, kRecord) {}

void FootprintTrace::keep(const experiment::RecordedRun& recorded) {
  const auto& streams = recorded.streams;
  text_ = render_trace(
      recorded.trace,
      {.bytes = device_.memory_bytes, .name = device_.title, .stream_name = [&](StreamId stream) {
         const auto known = streams.find(stream);
         return known == streams.end() ? "" : known->second;
       }});
}

void FootprintTrace::write() const {
  if (!text_.empty()) output_.write(text_);
}

}  // namespace millrace::cli
