#pragma once

#include <filesystem>
#include <string>
#include <vector>

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

/// A folder for the files of one test; gone with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }
  [[nodiscard]] std::filesystem::path write(const std::string& name, const std::string& text) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace millrace::test
