#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace millrace::test {

struct Ran {
  int code = 0;  ///< exit code, or 128 + the number of the signal that ended it
  std::string errors;
  nlohmann::json report;  ///< null if none was written
};

/// Runs a case of program.cpp on the virtual CUDA runtime.
/// @param schedule     value of MILLRACE_VIRTUAL
/// @param environment  further assignments, in the syntax of a shell
[[nodiscard]] Ran run(const std::string& words, const std::string& schedule,
                      const std::string& environment = "");

/// Runs the case on the program's own allocator.
[[nodiscard]] Ran run_alone(const std::string& words, const std::string& schedule);

}  // namespace millrace::test
