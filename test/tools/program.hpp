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
