#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream apply`: keeps a copy up to date with a sink's log. */
void add_stream_apply(CLI::App& stream);

}  // namespace millrace::cli
