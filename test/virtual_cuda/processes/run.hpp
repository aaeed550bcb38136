#pragma once

#include <string>

namespace millrace::test {

struct Ran {
  int code = 0;  ///< exit code, or 128 + the number of the signal that ended it
  std::string output;
  std::string errors;
};

/// Runs the program of program.cpp with one of its names.
/// @param environment  assignments of variables, in the syntax of a shell. MILLRACE_VIRTUAL and
/// related variables are not inherited.
[[nodiscard]] Ran run(const std::string& name, const std::string& environment);

}  // namespace millrace::test
