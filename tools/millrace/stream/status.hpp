#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream status`: what a sink has, how old it is, and what it lacks. */
void add_stream_status(CLI::App& stream);

}  // namespace millrace::cli
