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
  bool only_read = false;  ///< even if the option names what is written
};

/** @brief What a command does with a path that an option names. */
struct FileUse {
  std::string option;  ///< as the help calls it: "--save", "FILE"
  UsedPath used;
  bool written = false;          ///< false: the path is read
  std::string may_replace;       ///< the option that may name the same file; "" if there is none
  bool standard_output = false;  ///< the result goes there, and `used` has no meaning
};

/** @brief Whether `path` is "-", or a path that leads to standard output. */
[[nodiscard]] bool leads_to_stdout(const std::string& path);

/**
 * @brief Whether writing one would change the other.
 *
 * That is so if both are the same file, by any name (a relative path, a symbolic or a hard link,
 * also before the file exists), or if one is a folder that has the other in it. /dev/null overlaps
 * with nothing.
 */
[[nodiscard]] bool overlap(const UsedPath& one, const UsedPath& other);

/** @throws UsageError that names both options, if a written path overlaps another path */
void refuse_overlaps(const std::vector<FileUse>& uses);

}  // namespace millrace::cli
