#pragma once

#include <string>
#include <vector>

/// The options of the program that name files, as the program itself declares them.
namespace millrace::test {

struct FileOption {
  std::string name;   ///< as it is typed; of a positional one, its name in the help
  std::string shown;  ///< as messages name it
  bool positional = false, required = false;
  bool written = false;
  bool sink = false;  ///< its value is a sink, that may be a folder

  /// The words that give it this place.
  [[nodiscard]] std::vector<std::string> words(const std::string& place) const;
};

/// A command, with those of its options that name files.
struct CommandFiles {
  std::vector<std::string> words;  ///< "stream", "verify"
  std::vector<FileOption> options;
};

/// All commands that do something.
[[nodiscard]] std::vector<CommandFiles> all_commands();

}  // namespace millrace::test
