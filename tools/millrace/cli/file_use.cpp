#include "cli/file_use.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli/error.hpp"
#include "millrace/pipeline/data/whole_file.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

bool same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool is_null_device(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == ::makedev(1, 3);
}

bool is_null_device(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && is_null_device(status);
}

/** Whether both paths lead to the same file. If one does not exist yet, the names decide. */
bool same_file(const fs::path& one, const fs::path& other) {
  struct stat first {
  }, second{};
  if (::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0) {
    return same(first, second);
  }
  return without_links(one) == without_links(other);
}

bool holds(const fs::path& folder, const fs::path& path) {
  fs::path at = without_links(path);
  for (; at.has_relative_path(); at = at.parent_path()) {
    if (same_file(folder, at)) return true;
  }
  return same_file(folder, at);
}

std::string conflict(const FileUse& one, const FileUse& other) {
  const FileUse& result = one.written ? one : other;
  const FileUse& second = one.written ? other : one;
  if (result.standard_output || second.standard_output) {
    return fmt::format("{} and {} would both go to standard output", result.option, second.option);
  }
  if (second.written) {
    return fmt::format("{} and {} would write the same place: '{}'", result.option, second.option,
                       result.used.path.string());
  }
  return fmt::format("{} would write over what {} reads: '{}'", result.option, second.option,
                     result.used.path.string());
}

bool meet(const FileUse& one, const FileUse& other) {
  if (!one.written && !other.written) return false;
  if (one.may_replace == other.option || other.may_replace == one.option) return false;
  if (one.standard_output || other.standard_output) {
    return one.standard_output && other.standard_output;
  }
  return overlap(one.used, other.used);
}

}  // namespace

bool leads_to_stdout(const std::string& path) {
  if (path == "-") return true;
  struct stat there {
  }, standard{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(STDOUT_FILENO, &standard) == 0 &&
         same(there, standard) && !is_null_device(there);
}

bool overlap(const UsedPath& one, const UsedPath& other) {
  if (is_null_device(one.path) || is_null_device(other.path)) return false;
  return same_file(one.path, other.path) || (one.folder && holds(one.path, other.path)) ||
         (other.folder && holds(other.path, one.path));
}

void refuse_overlaps(const std::vector<FileUse>& uses) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    for (std::size_t j = i + 1; j < uses.size(); ++j) {
      if (!meet(uses[i], uses[j])) continue;
      throw UsageError{conflict(uses[i], uses[j]),
                       fmt::format("{} and {}", uses[i].option, uses[j].option),
                       "a file of its own for each"};
    }
  }
}

}  // namespace millrace::cli
