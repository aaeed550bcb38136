#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream verify`: compares what a sink has with a checkpoint, row by row. */
void add_stream_verify(CLI::App& stream);

}  // namespace millrace::cli
