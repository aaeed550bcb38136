#pragma once

#include <string>

namespace millrace::test {

struct Ran {
  int code = 0;  ///< exit code, or 128 and the number of the signal that ended it
  std::string output;
  std::string errors;
};

/// Runs the program of program.cpp with one of its names.
/// @param environment  assignments of variables, as a shell takes them; MILLRACE_VIRTUAL and its
///                     relatives are not inherited
[[nodiscard]] Ran run(const std::string& name, const std::string& environment);

}  // namespace millrace::test
