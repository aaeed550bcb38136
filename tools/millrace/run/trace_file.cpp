#include "run/trace_file.hpp"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "cli/error.hpp"
#include "millrace/observe/trace/trace_writer.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

/** Nothing, or a trace that an earlier run has left. */
bool may_replace(const fs::path& path) {
  if (!fs::is_regular_file(path)) return false;
  std::ifstream file{path, std::ios::binary};
  std::string beginning(trace::kTraceMagic.size(), '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  return file.gcount() == 0 || beginning == trace::kTraceMagic;
}

}  // namespace

std::string place_for_trace(const std::string& file) {
  std::error_code error;
  const fs::path path = fs::absolute(file, error);
  if (error || file.empty()) throw UsageError{"is not a file's name", "--record", "a new file"};
  if (file.find("%p") != std::string::npos) return path.string();
  if (fs::exists(path, error)) {
    if (!may_replace(path)) {
      throw UsageError{"'" + file + "' exists, and is not a trace of Millrace's", "--record",
                       "a new file, or one that an earlier --record wrote"};
    }
    fs::remove(path, error);
    if (error)
      throw UsageError{"'" + file + "' cannot be replaced: " + error.message(), "--record",
                       "a file that can be written"};
  }
  if (!fs::is_directory(path.parent_path(), error)) {
    throw UsageError{"the folder of '" + file + "' does not exist", "--record",
                     "a file in a folder that exists"};
  }
  return path.string();
}

}  // namespace millrace::cli
