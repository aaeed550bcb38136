#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream verify`: compares the rows of a sink with a checkpoint. */
void add_stream_verify(CLI::App& stream);

}  // namespace millrace::cli
