#pragma once

#include <CLI/CLI.hpp>

/// @file
/// The subcommands. Each function adds one subcommand with a callback that does its work. A
/// callback reports a failure by an exception; cli/error.hpp describes what the user then sees.

namespace millrace::cli {

void add_footprint(CLI::App& program);
void add_explain(CLI::App& program);
void add_replay(CLI::App& program);
void add_train(CLI::App& program);
void add_pipelines(CLI::App& program);
void add_stream(CLI::App& program);
void add_run(CLI::App& program);
void add_doctor(CLI::App& program);

}  // namespace millrace::cli
