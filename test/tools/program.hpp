#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "test/support/scratch_folder.hpp"

namespace millrace::test {

/// The result of a run of the built program `millrace`.
struct ProgramRun {
  int exit_code = -1;  ///< -1: it did not exit by itself
  std::string out, err;
};

/// Runs the program with these arguments and an empty standard input.
/// @param folder its working folder; empty: the test's
[[nodiscard]] ProgramRun run_program(const std::vector<std::string>& arguments,
                                     const std::filesystem::path& folder = {});

/// Runs the program with these arguments and with those that request JSON. Requires success.
[[nodiscard]] nlohmann::json document_of(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& as_json = {"--format",
                                                                                    "json"});

/// Starts a training and presses Ctrl-C once it has printed a second row. Checks that it ends as
/// interrupted and saves a checkpoint. @return what it printed
[[nodiscard]] std::string interrupted(const std::vector<std::string>& training,
                                      const ScratchFolder& scratch);

/// `first`, followed by `more`.
[[nodiscard]] std::vector<std::string> joined(std::vector<std::string> first,
                                              const std::vector<std::string>& more);

/// The built program while it runs, with an empty standard input. The destructor kills it if
/// nothing has waited for it.
class StartedProgram {
 public:
  /// @param folder its working folder; empty: the test's
  StartedProgram(const std::vector<std::string>& arguments, const std::string& out,
                 const std::string& err, const std::filesystem::path& folder = {});
  ~StartedProgram();
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  void signal(int number) const;
  /// Waits. @return the exit code; -1 if the program did not exit by itself
  [[nodiscard]] int wait();

 private:
  int process_ = 0;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace millrace::test
