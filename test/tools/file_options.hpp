#pragma once

#include <string>
#include <vector>

/// The program's options that name files, as the program declares them.
namespace millrace::test {

struct FileOption {
  std::string name;   ///< as typed; for a positional option, its name in the help
  std::string shown;  ///< the name in messages
  bool positional = false, required = false;
  bool written = false;
  bool sink = false;  ///< its value is a sink, which may be a folder

  /// The words that set this option to `place`.
  [[nodiscard]] std::vector<std::string> words(const std::string& place) const;
};

/// A command and its options that name files.
struct CommandFiles {
  std::vector<std::string> words;  ///< such as "stream", "verify"
  std::vector<FileOption> options;
};

/// All commands without subcommands.
[[nodiscard]] std::vector<CommandFiles> all_commands();

}  // namespace millrace::test
