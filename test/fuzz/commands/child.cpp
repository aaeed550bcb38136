#include "test/fuzz/commands/child.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace millrace::fuzz {
namespace {

void limit(__rlimit_resource resource, std::uint64_t most) {
  const rlimit value{most, most};
  ::setrlimit(resource, &value);
}

[[noreturn]] void become(const std::string& program, const std::vector<std::string>& arguments,
                         const std::filesystem::path& folder, const std::filesystem::path& errors,
                         const ChildLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<char*> words{const_cast<char*>(program.c_str())};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::dup2(::open("/dev/null", O_RDWR), 0);
  ::dup2(0, 1);
  ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  limit(RLIMIT_DATA, limits.memory);
  limit(RLIMIT_CPU, limits.cpu_seconds);
  limit(RLIMIT_CORE, 0);
  ::alarm(limits.seconds);
  if (::chdir(folder.c_str()) == 0) ::execv(program.c_str(), words.data());
  ::_exit(127);
}

}  // namespace

ChildRun run_child(const std::string& program, const std::vector<std::string>& arguments,
                   const std::filesystem::path& folder, const ChildLimits& limits) {
  const std::filesystem::path errors = folder.string() + ".stderr";
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error{"cannot fork"};
  if (child == 0) become(program, arguments, folder, errors, limits);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ChildRun run;
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  std::ifstream stream{errors, std::ios::binary};
  run.errors.assign(std::istreambuf_iterator<char>{stream}, {});
  std::filesystem::remove(errors);
  return run;
}

}  // namespace millrace::fuzz
