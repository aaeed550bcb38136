#include "stream/look.hpp"

#include <stdexcept>

#include "millrace/streamer/sink_kinds.hpp"

namespace millrace::cli {

std::unique_ptr<Sink> open_to_look_at(const std::string& spec) {
  try {
    return open_sink(spec);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "SINK", sink_addresses()};
  }
}

UsageError refused_sink(const std::string& spec, const std::exception& error,
                        const std::string& right) {
  const std::string sink = redacted(spec), what = error.what();
  const bool named = what.find(sink) != std::string::npos;
  return UsageError{named ? what : sink + ": " + what, "SINK", right};
}

std::string what_sink_would_be_right(const SinkError& error) {
  return error.kind() == SinkError::Kind::retry
             ? "a sink that can be reached and answers now; the same command may succeed later"
             : "a sink that `millrace train --stream` or `millrace stream apply` wrote to, and "
               "that "
               "this user may read";
}

}  // namespace millrace::cli
