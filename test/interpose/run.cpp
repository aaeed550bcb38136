#include "test/interpose/run.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace millrace::test {
namespace {

std::string take(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  std::filesystem::remove(file);
  return text.str();
}

const std::string kVirtual = MILLRACE_VIRTUAL_FOLDER;

Ran run_with(const std::string& words, const std::string& environment) {
  static int runs = 0;
  const auto stem =
      (std::filesystem::temp_directory_path() /
       ("millrace-interpose-" + std::to_string(getpid()) + '-' + std::to_string(++runs)))
          .string();
  const std::string command =
      "unset MILLRACE_VIRTUAL_REPORT MILLRACE_VIRTUAL_KERNELS MILLRACE_VIRTUAL_COSTS; ulimit -c 0; "
      "MILLRACE_RUN_REPORT='" +
      stem + ".json' MILLRACE_VIRTUAL_LIBRARIES='" + kVirtual + "' LD_LIBRARY_PATH='" + kVirtual +
      "/13:" + kVirtual + "' " + environment + " '" MILLRACE_PROGRAM "' " + words + " 2> '" + stem +
      ".err'";
  const int status = std::system(command.c_str());
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.errors = take(stem + ".err");
  const std::string report = take(stem + ".json");
  if (!report.empty()) ran.report = nlohmann::json::parse(report);
  return ran;
}

}  // namespace

Ran run(const std::string& words, const std::string& schedule, const std::string& environment) {
  return run_with(words, "MILLRACE_VIRTUAL=" + schedule +
                             ",memory=2GiB LD_PRELOAD='" MILLRACE_INTERPOSE
                             "' LD_AUDIT='" MILLRACE_CATCH ":" MILLRACE_SEARCH "' " +
                             environment);
}

Ran run_alone(const std::string& words, const std::string& schedule) {
  return run_with(words,
                  "MILLRACE_VIRTUAL=" + schedule + ",memory=2GiB LD_AUDIT='" MILLRACE_SEARCH "'");
}

}  // namespace millrace::test
