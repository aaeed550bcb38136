#pragma once

#include <exception>
#include <memory>
#include <string>

#include "cli/error.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace::cli {

/// @file
/// Functions for the commands that only read a sink.

/** @brief Opens a sink by its address for reading. @throws UsageError if the address is invalid */
[[nodiscard]] std::unique_ptr<Sink> open_to_look_at(const std::string& spec);

/** @brief The error for a sink that the user gave as SINK. The message names the sink. */
[[nodiscard]] UsageError refused_sink(const std::string& spec, const std::exception& error,
                                      const std::string& right);

/** @brief The `right` of a UsageError about a sink that cannot be read. */
[[nodiscard]] std::string what_sink_would_be_right(const SinkError& error);

}  // namespace millrace::cli
