#include "cli/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <utility>

#include "cli/error.hpp"
#include "cli/file_use.hpp"
#include "cli/standard_output.hpp"
#include "millrace/pipeline/data/whole_file.hpp"

namespace millrace::cli {

bool colors_on_stdout() {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  if (refused != nullptr && *refused != '\0') return false;
  if (terminal != nullptr && std::string_view{terminal} == "dumb") return false;
  return ::isatty(STDOUT_FILENO) == 1;
}

Output::Output(const std::optional<std::string>& file, std::string option)
    : option_(std::move(option)) {
  if (!file || leads_to_stdout(*file)) return;
  file_ = *file;
  try {
    check_whole_file(file_);
  } catch (const WholeFileError& error) {
    refuse(error.what());
  }
}

void Output::refuse(const std::string& reason) const {
  throw UsageError{fmt::format("'{}' cannot be written: {}", file_.string(), reason), option_,
                   "a file in a folder that is there and may be written to"};
}

void Output::write(std::string_view text) const {
  if (to_stdout()) {
    print(text);
    finish_standard_output();
    return;
  }
  try {
    WholeFile out{file_};
    out.write(std::as_bytes(std::span{text}));
    out.finish();
  } catch (const WholeFileError& error) {
    refuse(error.what());
  }
}

}  // namespace millrace::cli
