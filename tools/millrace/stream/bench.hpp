#pragma once

#include <CLI/CLI.hpp>

namespace millrace::cli {

/** @brief `millrace stream bench`: the ways of capture side by side. */
void add_stream_bench(CLI::App& stream);

}  // namespace millrace::cli
