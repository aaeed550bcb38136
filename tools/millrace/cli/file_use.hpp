#pragma once

#include <filesystem>
#include <string>
#include <vector>

/// @file
/// The check that no result overwrites an input or another result.

namespace millrace::cli {

/** @brief A file, or a folder with all its contents. */
struct UsedPath {
  std::filesystem::path path;
  bool folder = false;
  bool only_read = false;  ///< even if the option names a place to write
};

/** @brief What a command does with a path that an option names. */
struct FileUse {
  std::string option;  ///< as the help shows it: "--save", "FILE"
  UsedPath used;
  bool written = false;          ///< false: the path is read
  std::string may_replace;       ///< the option that may name the same file; "" if there is none
  bool standard_output = false;  ///< the result goes to standard output; `used` has no meaning
};

/** @brief Whether `path` is "-", or a path that leads to standard output. */
[[nodiscard]] bool leads_to_stdout(const std::string& path);

/**
 * @brief Whether writing to one path would change the other.
 *
 * This is the case if both paths lead to the same file (also through a relative path, a symbolic
 * link or a hard link, and also if the file does not exist yet), or if one path is a folder that
 * contains the other. /dev/null overlaps with nothing.
 */
[[nodiscard]] bool overlap(const UsedPath& one, const UsedPath& other);

/** @throws UsageError that names both options, if a path to write overlaps another path */
void refuse_overlaps(const std::vector<FileUse>& uses);

}  // namespace millrace::cli
