#pragma once

#include <optional>
#include <regex>
#include <string>

#include "allocator/measure/trial.hpp"

namespace millrace::bench {

/// What the program was asked, checked.
struct Options {
  Setting setting;
  std::string json;  ///< file; "" for none
  std::string data;  ///< folder; "" for none
  std::optional<std::regex> filter;
  bool list = false;
  std::string command;  ///< as it was typed
};

/// @return what to run, or the exit code of a program that is done already: 0 after --help, 2 after
/// an option that is wrong, 4 without the GPU that was asked for
struct ReadOptions {
  std::optional<Options> options;
  int exit_code = 0;
};
[[nodiscard]] ReadOptions read_options(int argc, char** argv);

}  // namespace millrace::bench
