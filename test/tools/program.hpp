#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
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
/// @param folder its working folder; empty: that of the test
[[nodiscard]] ProgramRun run_program(const std::vector<std::string>& arguments,
                                     const std::filesystem::path& folder = {});

/// Runs it with these arguments and those that ask for JSON. Requires that it succeeds.
[[nodiscard]] nlohmann::json document_of(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& as_json = {"--format",
                                                                                    "json"});

/// Starts a training, presses Ctrl-C once it has printed a second row, and checks that it ends as
/// interrupted, with a checkpoint. @return what it printed
[[nodiscard]] std::string interrupted(const std::vector<std::string>& training,
                                      const ScratchFolder& scratch);

/// Arguments with more behind them.
[[nodiscard]] std::vector<std::string> joined(std::vector<std::string> first,
                                              const std::vector<std::string>& more);

/// The built program while it runs, stdin empty. Killed if it was not waited for.
class StartedProgram {
 public:
  /// @param folder its working folder; empty: that of the test
  StartedProgram(const std::vector<std::string>& arguments, const std::string& out,
                 const std::string& err, const std::filesystem::path& folder = {});
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
