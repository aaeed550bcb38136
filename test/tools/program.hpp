#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "test/support/scratch_folder.hpp"

namespace millrace::test {

/// What the built program `millrace` did.
struct ProgramRun {
  int exit_code = -1;  ///< -1: it did not exit by itself
  std::string out, err;
};

/// Runs it with these arguments, stdin empty.
[[nodiscard]] ProgramRun run_program(const std::vector<std::string>& arguments);

/// The built program while it runs, stdin empty. Killed if it was not waited for.
class StartedProgram {
 public:
  StartedProgram(const std::vector<std::string>& arguments, const std::string& out,
                 const std::string& err);
  ~StartedProgram();
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  void signal(int number) const;
  /// Its exit code; -1 if it did not exit by itself.
  [[nodiscard]] int wait();

 private:
  int process_ = 0;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace millrace::test
