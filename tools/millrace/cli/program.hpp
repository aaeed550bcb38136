#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace millrace::cli {

/** @brief The program with all of its commands and options, which parses and runs. */
[[nodiscard]] std::unique_ptr<CLI::App> make_program();

/** @brief The whole of `main`. @return the exit code */
[[nodiscard]] int run_program(int argc, const char* const* argv);

}  // namespace millrace::cli
