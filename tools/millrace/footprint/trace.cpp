#include "footprint/trace.hpp"

#include "cli/error.hpp"

namespace millrace::cli {
namespace {

const DeviceDescription& checked(const TraceForm& form, const FootprintOptions& options) {
  check_one_run(options, form.option, form.name);
  if (options.device.modeled) return options.device;
  throw UsageError{"this command records runs on virtual devices only", form.option,
                   std::string{"with --device virtual:h200; or millrace run "} + form.option +
                       " FILE -- PROGRAM, for a program on a GPU"};
}

}  // namespace

FootprintTrace::FootprintTrace(const TraceForm& form, const std::string& file,
                               const FootprintOptions& options)
    : form_(form), device_(checked(form, options)), output_(file, form.option) {}

void FootprintTrace::keep(const experiment::RecordedRun& recorded) {
  const auto& streams = recorded.streams;
  text_ = form_.render(recorded.trace, {.bytes = device_.memory_bytes,
                                        .name = device_.title,
                                        .stream_name =
                                            [&](StreamId stream) {
                                              const auto known = streams.find(stream);
                                              return known == streams.end() ? "" : known->second;
                                            },
                                        .marks = recorded.steps});
}

void FootprintTrace::write() const {
  if (!text_.empty()) output_.write(text_);
}

}  // namespace millrace::cli
