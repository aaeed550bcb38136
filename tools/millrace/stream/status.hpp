#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream status`: the content of a sink, its age, and what it lacks. */
void add_stream_status(CLI::App& stream);

}  // namespace millrace::cli
