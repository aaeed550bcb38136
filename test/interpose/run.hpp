#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace millrace::test {

struct Ran {
  int code = 0;  ///< exit code, or 128 and the number of the signal that ended it
  std::string errors;
  nlohmann::json report;  ///< null if none was written
};

/// Runs a case of program.cpp on the virtual CUDA runtime.
/// @param schedule     of MILLRACE_VIRTUAL
/// @param environment  further assignments, as a shell takes them
[[nodiscard]] Ran run(const std::string& words, const std::string& schedule,
                      const std::string& environment = "");

/// The same on the program's own allocator.
[[nodiscard]] Ran run_alone(const std::string& words, const std::string& schedule);

}  // namespace millrace::test
