#pragma once

#include <memory>
#include <string>

#include "millrace/streamer/sink.hpp"

namespace millrace::cli {

/// @file
/// What commands share that look at a sink and write nothing to it.

/** @brief Opens what a user names. @throws UsageError for what can be no sink */
[[nodiscard]] std::unique_ptr<Sink> open_to_look_at(const std::string& spec);

/** @brief What would be right in place of a sink that can not be looked at, for a UsageError. */
[[nodiscard]] std::string what_sink_would_be_right(const SinkError& error);

}  // namespace millrace::cli
