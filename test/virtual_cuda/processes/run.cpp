#include "test/virtual_cuda/processes/run.hpp"

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

}  // namespace

Ran run(const std::string& name, const std::string& environment) {
  static int runs = 0;
  const auto stem =
      (std::filesystem::temp_directory_path() /
       ("millrace-virtual-cuda-" + std::to_string(getpid()) + '-' + std::to_string(++runs)))
          .string();
  const std::string command =
      "unset MILLRACE_VIRTUAL MILLRACE_VIRTUAL_REPORT MILLRACE_VIRTUAL_KERNELS "
      "MILLRACE_VIRTUAL_COSTS MILLRACE_VIRTUAL_CHECK; ulimit -c 0; " +
      environment + " '" MILLRACE_PROGRAM "' " + name + " > '" + stem + ".out' 2> '" + stem +
      ".err'";
  const int status = std::system(command.c_str());
  Ran ran;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.output = take(stem + ".out");
  ran.errors = take(stem + ".err");
  return ran;
}

}  // namespace millrace::test
