#pragma once

#include <optional>
#include <regex>
#include <string>

#include "allocator/measure/trial.hpp"

namespace millrace::bench {

/// The checked options of the program.
struct Options {
  Setting setting;
  std::string json;  ///< output file; "": none
  std::string data;  ///< folder of the traces; "": none
  std::optional<std::regex> filter;
  bool list = false;
  std::string command;  ///< the command line as typed
};

/// The options, or the exit code of a program that must end: 0 after --help, 2 after a wrong
/// option, 4 if the requested GPU is missing.
struct ReadOptions {
  std::optional<Options> options;
  int exit_code = 0;
};
[[nodiscard]] ReadOptions read_options(int argc, char** argv);

}  // namespace millrace::bench
