#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// @file
/// The rule that no result destroys an input or another result.

namespace millrace::cli {

/** @brief A file, or a folder with all that is in it. */
struct UsedPath {
  std::filesystem::path path;
  bool folder = false;
  bool only_read = false;  ///< also where the option names what is written
};

/** @brief What a command does with a path that an option names. */
struct FileUse {
  std::string option;  ///< as the user knows it: "--save", "FILE"
  UsedPath used;
  bool written = false;          ///< otherwise read
  std::string may_replace;       ///< the option whose file this one may be
  bool standard_output = false;  ///< in place of `used`
};

/** @brief Whether a result that goes there goes to standard output: "-", or a path that leads
 * there. */
[[nodiscard]] bool leads_to_stdout(const std::string& path);

/**
 * @brief Whether writing one would change the other: the same file by any name (relative, a
 * symbolic or a hard link, also where no file is yet), or one in the folder that the other is.
 * Nothing that is written to /dev/null meets anything.
 */
[[nodiscard]] bool overlap(const UsedPath& one, const UsedPath& other);

/** @throws UsageError that names both options, if one is written that overlaps another */
void refuse_overlaps(const std::vector<FileUse>& uses);

}  // namespace millrace::cli
