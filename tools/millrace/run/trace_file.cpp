#include "run/trace_file.hpp"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "cli/error.hpp"
#include "millrace/observe/trace/trace_writer.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

/** A kind of file that the program writes. */
struct FileKind {
  const char* option;
  std::string_view beginning;  // first bytes of such a file
  const char* named;
};

/** Whether the file is empty or was written by an earlier run. */
bool may_replace(const fs::path& path, const FileKind& kind) {
  if (!fs::is_regular_file(path)) return false;
  std::ifstream file{path, std::ios::binary};
  std::string beginning(kind.beginning.size(), '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  return file.gcount() == 0 || beginning == kind.beginning;
}

std::string place_for(const std::string& file, const FileKind& kind) {
  std::error_code error;
  const fs::path path = fs::absolute(file, error);
  if (error || file.empty()) throw UsageError{"is not a file's name", kind.option, "a new file"};
  if (file.find("%p") != std::string::npos) return path.string();
  if (fs::exists(path, error)) {
    if (!may_replace(path, kind)) {
      throw UsageError{"'" + file + "' exists, and is not " + kind.named, kind.option,
                       std::string{"a new file, or one that an earlier "} + kind.option + " wrote"};
    }
    fs::remove(path, error);
    if (error)
      throw UsageError{"'" + file + "' cannot be replaced: " + error.message(), kind.option,
                       "a file that can be written"};
  }
  if (!fs::is_directory(path.parent_path(), error)) {
    throw UsageError{"the folder of '" + file + "' does not exist", kind.option,
                     "a file in a folder that exists"};
  }
  return path.string();
}

}  // namespace

std::string place_for_trace(const std::string& file) {
  return place_for(file, {"--record", trace::kTraceMagic, "a Millrace trace"});
}

std::string place_for_snapshot(const std::string& file) {
  return place_for(file, {"--snapshot", trace::kTorchSnapshotBeginning, "a Millrace snapshot"});
}

std::string place_for_report(const std::string& file) {
  if (!file.ends_with(".json"))
    throw UsageError{"the name of '" + file + "' does not say that it is JSON", "--json",
                     "a name that ends with .json"};
  return place_for(file, {"--json", "{\n  \"schema\": \"millrace.run/", "a Millrace report"});
}

}  // namespace millrace::cli
