#pragma once

#include <exception>
#include <memory>
#include <string>

#include "cli/error.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace::cli {

/// @file
/// Shared by the commands that only read a sink.

/** @brief Opens a sink by its address, to read. @throws UsageError if the address is not a sink's
 */
[[nodiscard]] std::unique_ptr<Sink> open_to_look_at(const std::string& spec);

/** @brief An error of the sink that the user named as SINK. Its message names the sink. */
[[nodiscard]] UsageError refused_sink(const std::string& spec, const std::exception& error,
                                      const std::string& right);

/** @brief The `right` of a UsageError about a sink that cannot be read. */
[[nodiscard]] std::string what_sink_would_be_right(const SinkError& error);

}  // namespace millrace::cli
