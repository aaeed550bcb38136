#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream bench`: compares the ways of capture. */
void add_stream_bench(CLI::App& stream);

}  // namespace millrace::cli
